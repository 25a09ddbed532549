"""What each loader costs, in processor time from cold tables, and the peers that answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from operator import mul

from benchmarks.timing import cold, cpu_seconds, row
from dprounds import FixedSizeSampled, Gaussian, PoissonSampled, RandomAllocation, Shuffled, TruncatedPoissonSampled
from dprounds.mechanisms import Run

Ask = Callable[[], float]


# Groups: records of a person, rate, noise, rounds, delta.
GROUPS = ((4, 0.01, 2.0, 1_000, 1e-5), (8, 0.005, 4.0, 2_000, 1e-6), (16, 0.001, 3.0, 5_000, 1e-5))
# Batches of fixed size: records, batch, noise, rounds, delta.
FIXED = (
    (60_000, 256, 2.2, 14_062, 1e-5),
    (10_000, 100, 2.0, 1_000, 1e-5),
    (1_000, 10, 8.0, 10_000, 1e-5),
    (1_000, 50, 4.0, 2_000, 1e-6),
)
# Truncated Poisson samples of 60,000 records, 256 on average: noise, largest batch, rounds, delta.
TRUNCATED = ((1.1, 300, 14_062, 1e-5), (1.1, 350, 14_062, 1e-5), (0.8, 320, 1_000, 1e-8))
# Random allocation and shuffled batches: noise, steps, epochs, delta.
EPOCHS = ((1.0, 100, 1, 1e-5), (1.0, 100, 10, 1e-5), (1.0, 234, 60, 1e-5), (2.0, 1_000, 100, 1e-5))


def shown(name: str, make: Callable[[], Run], delta: float, milliseconds: float, peer: Ask | None = None) -> None:
    """A row for a run, which is made anew each time, and one for a peer that answers."""

    def ask() -> float:
        cold()
        run = make()
        return cpu_seconds(partial(run.guarantee, delta=delta))

    make().guarantee(delta=delta)  # imports
    took = 1e3 * min(ask() for _ in range(5))
    found = make().guarantee(delta=delta)
    row(name, f"{took:.1f} ms", f"≤ {milliseconds:g} ms", took <= milliseconds)
    row("  epsilon, and from below", f"{found.upper:.6f}, {found.lower:.6f}")
    if peer is None:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of is theirs
            theirs: list[float] = []
            peer_took = 1e3 * cpu_seconds(lambda: theirs.append(peer()))
    except ImportError:
        row("  dp-accounting", "not installed")
        return
    row(
        f"  dp-accounting: {theirs[0]:.6f}",
        f"{peer_took:.0f} ms",
        f"we take 1/{peer_took / took:.0f}",
        peer_took > took,
    )


def group_of_peer(k: int, rate: float, noise: float, rounds: int, delta: float) -> float:
    """Dp-accounting's privacy loss distribution of the same mixture of Gaussians."""
    from math import comb

    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    chances = [comb(k, i) * rate**i * (1 - rate) ** (k - i) for i in range(k + 1)]
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.dp_event.MixtureOfGaussiansDpEvent(noise, list(range(k + 1)), chances), rounds)
    return float(accountant.get_epsilon(delta))


def fixed_of_peer(n: int, b: int, noise: float, rounds: int, delta: float) -> float:
    """Dp-accounting's Rényi account of a replaced record, whose sensitivity is two clipping norms."""
    import dp_accounting
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    inner = dp_accounting.GaussianDpEvent(0.5 * noise)
    accountant.compose(dp_accounting.dp_event.SampledWithoutReplacementDpEvent(n, b, inner), rounds)
    return float(accountant.get_epsilon(delta))


def truncated_of_peer(noise: float, most: int, rounds: int, delta: float, relation: str) -> float:
    """Dp-accounting's privacy loss distribution of the same event."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation

    event = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(60_000, 256 / 60_000, most, noise)
    accountant = PLDAccountant(NeighboringRelation[relation]).compose(event, rounds)
    return float(accountant.get_epsilon(delta))


def main() -> None:
    """All rows."""
    print("Loaders, processor time from cold tables")
    for noise, steps, epochs, delta in EPOCHS:
        name = f"noise {noise:g}, {steps} steps, epochs {epochs}"
        shown(f"random allocation, {name}", partial(mul, RandomAllocation(Gaussian(noise), steps), epochs), delta, 50)
    for k, rate, noise, rounds, delta in GROUPS:
        step = PoissonSampled(Gaussian(noise), rate, group_size=k)
        peer = partial(group_of_peer, k, rate, noise, rounds, delta)
        shown(f"group of {k}, rate {rate:g}, noise {noise:g}", partial(mul, step, rounds), delta, 20, peer)
    for n, b, noise, rounds, delta in FIXED:
        peer = partial(fixed_of_peer, n, b, noise, rounds, delta)
        for relation, other in (("replace-one", peer), ("zero-out", None)):
            fixed = FixedSizeSampled(Gaussian(noise), b, n, relation=relation)
            shown(f"{b} of {n}, noise {noise:g}, {relation}", partial(mul, fixed, rounds), delta, 20, other)
    for noise, most, rounds, delta in TRUNCATED:
        relations = {"add-remove": "ADD_OR_REMOVE_ONE", "zero-out": "REPLACE_SPECIAL", "replace-one": None}
        for relation, theirs in relations.items():
            cut = TruncatedPoissonSampled(Gaussian(noise), 256 / 60_000, most, 60_000, relation)
            of_peer = None if theirs is None else partial(truncated_of_peer, noise, most, rounds, delta, theirs)
            shown(
                f"at most {most} of 60,000, noise {noise:g}, {relation}", partial(mul, cut, rounds), delta, 50, of_peer
            )
    for noise, steps, epochs, delta in EPOCHS:
        epoch = Shuffled(Gaussian(noise), steps)
        shown(f"shuffled, noise {noise:g}, {steps} steps, epochs {epochs}", partial(mul, epoch, epochs), delta, 50)


if __name__ == "__main__":
    main()
