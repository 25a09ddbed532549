"""What a run truly costs, by means that import nothing of dprounds wherever there are such."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp

from benchmarks.peers import History, Ours
from tests.references import gaussian, profile

Number = Any  # mpmath has no types

# Of the bisection below, in arbitrary precision; far finer than what any library is told apart by.
RELATIVE = 1e-13
# A bracket that is wider than this is no truth.
NARROW = 1e-6


class Truth(NamedTuple):
    """Epsilon between two proven ends, and how they are known."""

    lower: float
    upper: float
    source: str


def truth(history: History, delta: float) -> Truth | None:
    """The truth by a closed form or a sum, else by our proven bracket; None if neither is narrow."""
    profile_of = independent_profile(history)
    if profile_of is not None:
        low, high = inverted(profile_of[0], delta)
        return Truth(low, high, profile_of[1])
    found = Ours().run(history).guarantee(delta=delta)
    if found.upper - found.lower <= NARROW * found.upper:
        return Truth(found.lower, found.upper, "our bracket")
    return None


def independent_profile(history: History) -> tuple[Callable[[Number], Number], str] | None:
    """Delta as a function of epsilon, where it has a closed form or a short sum; and the name of that."""
    kinds = {part.kind for part in history}
    if kinds == {"gaussian"}:
        with mp.workdps(40):
            shift = mp.sqrt(mp.fsum(part.rounds / mp.mpf(part.parameters["noise_multiplier"]) ** 2 for part in history))
        return lambda e: gaussian.delta(shift, e), "closed form"
    if len(history) != 1:
        return None
    (_, parameters, rounds), kind = history[0], history[0].kind
    if kind == "randomized-response":
        return responses(parameters["epsilon"], rounds), "binomial sum"
    if kind == "laplace" and rounds == 1:
        return lambda e: profile.laplace(parameters["noise_multiplier"], e), "closed form"
    if kind == "sampled-gaussian" and rounds == 1:
        return lambda e: once_sampled(parameters["noise_multiplier"], parameters["sampling_rate"], e), "closed form"
    return None


def responses(local_epsilon: float, rounds: int) -> Callable[[Number], Number]:
    """Delta of so many randomized responses: the tail of a binomial law, summed once from its far end.

    δ(ε) = Σ P(k) (1 - e^{ε - l(k)}) over the losses l(k) = (2k - n) ε₁ above ε, with P(k) for k true answers.
    """
    with mp.workdps(40):
        e = mp.mpf(local_epsilon)
        truth_mass = 1 / (1 + mp.exp(-e))
        mass = truth_mass**rounds
        under_p, under_q = [mp.mpf(0)], [mp.mpf(0)]  # by how many of the largest losses are summed
        for lies in range(rounds + 1):
            under_p.append(under_p[-1] + mass)
            under_q.append(under_q[-1] + mass * mp.exp(-(rounds - 2 * lies) * e))
            mass = mass * (rounds - lies) / (lies + 1) * mp.exp(-e)

    def delta_of(epsilon: Number) -> Number:
        with mp.workdps(40):
            x = mp.mpf(epsilon)
            # losses (n - 2 lies) ε₁ > ε
            count = min(max(int(mp.ceil((rounds - x / e) / 2)), 0), rounds + 1)
            return under_p[count] - mp.exp(x) * under_q[count]

    return delta_of


def once_sampled(noise_multiplier: float, sampling_rate: float, epsilon: Number) -> Number:
    """Delta of one sampled Gaussian, the worse of both directions; either likelihood ratio rises or falls with x.

    Remove: the mixture (1-q) N(0,σ²) + q N(1,σ²) exceeds e^ε N(0,σ²) above an x; add: N(0,σ²) exceeds e^ε times the
    mixture below one, if ever.
    """
    with mp.workdps(40):
        s, q, e = mp.mpf(noise_multiplier), mp.mpf(sampling_rate), mp.mpf(epsilon)

        def tail(x: Number, mean: int) -> Number:
            return mp.ncdf((mean - x) / s)

        at = mp.mpf(1) / 2 + s**2 * mp.log((mp.exp(e) - 1 + q) / q)
        remove = (1 - q) * tail(at, 0) + q * tail(at, 1) - mp.exp(e) * tail(at, 0)
        share = mp.exp(-e) - 1 + q  # q times the ratio of the densities at the threshold
        if share <= 0:
            return remove
        at = mp.mpf(1) / 2 + s**2 * mp.log(share / q)
        below = [1 - tail(at, mean) for mean in (0, 1)]
        return max(remove, below[0] - mp.exp(e) * ((1 - q) * below[0] + q * below[1]))


def inverted(delta_of: Callable[[Number], Number], delta: float) -> tuple[float, float]:
    """The ends of a short interval of epsilons with delta on different sides; (0, 0) if delta(0) is within it."""
    if delta_of(0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 2.0 * high
    while high - low > RELATIVE * high:
        middle = low + (high - low) / 2.0
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    assert math.isfinite(high)
    return low, high
