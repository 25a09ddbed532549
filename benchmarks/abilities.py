"""What peers can do and dprounds cannot, each by an answer of the peer's own: ``python -m benchmarks.abilities``.

Asks the peers that are installed, and dprounds for bad input, and writes the answers to `docs/comparison.json` and the
page anew, in less than a minute. `tests/peers/test_abilities.py` holds the page to what is installed, and to what
dprounds refuses today.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

from benchmarks.timing import row

__all__ = ["ABILITIES", "Ability", "answers", "is_installed", "one_defect"]

DELTA = 1e-5
MODULES = {"dp-accounting": "dp_accounting", "autodp": "autodp"}


class Ability(NamedTuple):
    """Something that a peer answers and dprounds does not."""

    what: str
    library: str
    by: str
    asked: str
    answer: Callable[[], float]
    refused: Callable[[], object]  # the same question to dprounds, which raises


def _event(name: str, *arguments: Any) -> Any:  # noqa: ANN401  (the peer has no types)
    from dp_accounting import dp_event

    return getattr(dp_event, name)(*arguments)


def _gaussian(noise: float) -> Any:  # noqa: ANN401  (the peer has no types)
    return _event("GaussianDpEvent", noise)


def _of_dp_accounting(
    what: str, kind: str, relation: str, asked: str, event: Callable[[], Any], *, count: int = 1
) -> Ability:
    """An event that one of dp-accounting's accountants takes, and the adapter of dprounds does not."""

    def accountant() -> Any:  # noqa: ANN401  (the peer has no types)
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import PLDAccountant
        from dp_accounting.rdp import RdpAccountant

        neighbours = NeighboringRelation[relation]
        return PLDAccountant(neighbours) if kind == "PLD" else RdpAccountant(neighboring_relation=neighbours)

    def refused() -> object:
        from dp_accounting import NeighboringRelation

        from dprounds.integrations.dp_accounting import run_from_dp_event

        return run_from_dp_event(event(), neighboring_relation=NeighboringRelation[relation])

    return Ability(
        what,
        "dp-accounting",
        f"{kind} accountant",
        f"{asked}; {relation.lower().replace('_', ' ')}",
        lambda: float(accountant().compose(event(), count).get_epsilon(DELTA)),
        refused,
    )


def _sampled_renyi(*, poisson: bool) -> float:
    """A mechanism of which autodp knows Rényi bounds only, 100 times on a hundredth of the data."""
    from autodp import mechanism_zoo, transformer_zoo

    base = mechanism_zoo.zCDP_Mechanism(0.5)
    if not poisson:
        base.neighboring = "replace_one"
    sampled = transformer_zoo.AmplificationBySampling(PoissonSampling=poisson)(base, 0.01)
    return float(transformer_zoo.Composition()([sampled], [100]).get_approxDP(DELTA))


def _sparse_vector() -> float:
    from autodp import mechanism_zoo

    return float(
        mechanism_zoo.GaussianSVT_Mechanism({"sigma": 10.0, "k": 100, "c": 5}, rdp_c_1=False).get_approxDP(DELTA)
    )


def _sampled_zcdp() -> object:
    from dprounds import ZCDP, PoissonSampled

    return PoissonSampled(ZCDP(0.5), sampling_rate=0.01)


def _missing(name: str) -> Callable[[], object]:
    """A name that dprounds would have if it had the mechanism."""

    def refused() -> object:
        import dprounds

        return getattr(dprounds, name)

    return refused


RATE = 256 / 60_000
ABILITIES = [
    _of_dp_accounting(
        "Tree aggregation (DP-FTRL), one epoch",
        "RDP",
        "REPLACE_SPECIAL",
        "1,000 steps, σ 10",
        lambda: _event("SingleEpochTreeAggregationDpEvent", 10.0, 1_000),
    ),
    _of_dp_accounting(
        "The best of a random number of runs (private tuning)",
        "RDP",
        "ADD_OR_REMOVE_ONE",
        "20 on average (geometric), each q 256/60,000, σ 1.1, T 14,062",
        lambda: _event(
            "RepeatAndSelectDpEvent",
            _event("SelfComposedDpEvent", _event("PoissonSampledDpEvent", RATE, _gaussian(1.1)), 14_062),
            20.0,
            1.0,
        ),
    ),
    _of_dp_accounting(
        "Discrete Laplace noise on a sum that moves by more than one",
        "PLD",
        "ADD_OR_REMOVE_ONE",
        "parameter 0.1, sensitivity 3, T 5",
        lambda: _event("DiscreteLaplaceDpEvent", 0.1, 3),
        count=5,
    ),
    Ability(
        "Poisson samples for a mechanism known by its Rényi bounds",
        "autodp",
        "`AmplificationBySampling`",
        "0.5-zCDP, q 0.01, T 100; add or remove one",
        lambda: _sampled_renyi(poisson=True),
        _sampled_zcdp,
    ),
    Ability(
        "Batches of fixed size for a mechanism known by its Rényi bounds",
        "autodp",
        "`AmplificationBySampling`",
        "0.5-zCDP, q 0.01, T 100; replace one",
        lambda: _sampled_renyi(poisson=False),
        _missing("SampledWithoutReplacement"),
    ),
    Ability(
        "Sparse vector technique",
        "autodp",
        "`GaussianSVT_Mechanism`",
        "σ 10, at most 100 questions, 5 answers",
        _sparse_vector,
        _missing("SparseVector"),
    ),
]


def is_installed(ability: Ability) -> bool:
    """Whether the peer can be asked."""
    return find_spec(MODULES[ability.library]) is not None


def answers(before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every ability with the peer's epsilon at 1e-5, to six digits; of a peer that is not installed, the one before."""
    known = {one["what"]: one["epsilon"] for one in before}
    found = []
    for ability in ABILITIES:
        if is_installed(ability):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the peers deprecate is not ours to mend
                known[ability.what] = float(f"{ability.answer():.6g}")
        if ability.what in known:
            shown = {"what": ability.what, "library": ability.library, "by": ability.by, "asked": ability.asked}
            found.append({**shown, "epsilon": known[ability.what]})
    return found


def one_defect() -> tuple[float, float]:
    """Epsilon of five randomized responses of 1 by dp-accounting's PLD: by their count, and one after the other."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    response = _event("RandomizedResponseDpEvent", 2.0 / (1.0 + math.e), 2)
    counted, listed = (PLDAccountant(NeighboringRelation.REPLACE_ONE) for _ in range(2))
    counted.compose(response, 5)
    for _ in range(5):
        listed.compose(response)
    return float(counted.get_epsilon(DELTA)), float(listed.get_epsilon(DELTA))


def main() -> None:
    from benchmarks import page
    from benchmarks.comparison import DATA, PAGE, our_bad_input

    data = json.loads(DATA.read_text())
    data["abilities"] = answers(data.get("abilities", []))
    data["peers"]["dprounds"]["bad"] = our_bad_input()
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page.rendered(data))
    for one in data["abilities"]:
        row(one["what"], f"ε = {one['epsilon']:g} by {one['library']}")


if __name__ == "__main__":
    main()
