"""What every accountant must satisfy, stated once, over `benchmarks.peers.Accounting`.

Each method of `Contract` is a clause: it passes, or fails with a sentence that names the accountant. Histories that an
accountant does not cover are passed over; that it covers none of a clause's is a failure too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from benchmarks.peers import Accounting, History, NotCovered, Part
from benchmarks.runs import gaussian, laplace, response, sampled
from benchmarks.truth import independent_profile, inverted

DATA = Path(__file__).resolve().parent.parent / "data"
DELTA = 1e-5

# What may be raised at an argument that is outside its range; a library's own errors count as well.
REFUSALS = (ValueError, TypeError, AssertionError)

HISTORIES: list[History] = [
    [gaussian(2.0, 3)],
    [sampled(0.01, 1.0, 1_000)],
    [laplace(5.0, 2)],
    [response(0.5, 6)],
]
MIXED: list[History] = [
    [gaussian(5.0, 3), sampled(0.01, 1.0, 1_000)],
    [sampled(0.02, 2.0, 500), sampled(0.01, 1.0, 1_000)],
    [gaussian(5.0, 3), laplace(10.0, 4)],
]


@cache
def known_truths() -> tuple[tuple[str, History, float, float], ...]:
    """Histories, deltas, and an epsilon that no honest answer is below: none of it from dprounds."""
    rows: list[tuple[str, History, float, float]] = []
    for history, delta in (
        ([gaussian(1.0, 1)], 1e-5),
        ([gaussian(1.0, 1)], 1e-12),
        ([gaussian(20.0, 685)], 1e-5),
        ([gaussian(300.0, 100_000)], 1e-10),
        ([gaussian(3.0, 2), gaussian(10.0, 30)], 1e-6),
        ([gaussian(50.0, 1)], 0.3),
        ([sampled(0.01, 1.0, 1)], 1e-5),
        ([sampled(0.5, 2.0, 1)], 1e-3),
        ([laplace(1.0, 1)], 1e-5),
        ([response(1.0, 5)], 1e-5),
        ([response(0.1, 200)], 1e-8),
        ([response(3.0, 10)], 1e-5),
    ):
        found = independent_profile(history)
        assert found is not None
        rows.append((found[1], history, delta, inverted(found[0], delta)[0]))
    saddle = json.loads((DATA / "saddle_point_truth.json").read_text())["rows"]
    for row in saddle[:: max(len(saddle) // 4, 1)]:
        part = sampled(row["sampling_rate"], row["noise_multiplier"], row["rounds"])
        # the published digits; the file says of one row that it is low, which is the lenient side
        rows.append(("published value", [part], row["delta"], float(row["epsilon"]) * (1.0 - 1e-15)))
    for row in json.loads((DATA / "sampled_gaussian_profile.json").read_text())["rows"]:
        delta = max(float(row["delta_remove"]), float(row["delta_add"]))
        # delta is given at this epsilon to 18 digits; asked a little below it, epsilon must be larger
        part = sampled(row["sampling_rate"], row["noise_multiplier"], row["rounds"])
        rows.append(("arbitrary precision", [part], delta * (1.0 - 1e-15), row["epsilon"]))
    return tuple(rows)


class Contract:
    """The clauses, for one accountant.

    Parameters
    ----------
    accounting
        The accountant.
    precision
        Relative error in epsilon that it states: 0 for one that promises the same digits, 0.01 for one with a grid.
        It is granted wherever two of its answers are compared with each other, and never against the truth.
    """

    def __init__(self, accounting: Accounting, *, precision: float) -> None:
        self.accounting, self.precision = accounting, precision
        self.refusals: tuple[type[BaseException], ...] = (*REFUSALS, *accounting.errors)

    # What one accountant says of one history

    def _says(self, history: History, delta: float = DELTA) -> float | None:
        """Its epsilon; None where it does not cover the history."""
        try:
            return self.accounting.epsilon(history, delta)
        except NotCovered:
            return None

    def _each(self, histories: list[History]) -> Iterator[tuple[History, float]]:
        """The histories that it covers, with its epsilon; at least one."""
        covered = 0
        for history in histories:
            said = self._says(history)
            if said is not None:
                covered += 1
                yield history, said
        self._require(covered > 0, "covers none of the histories")

    def _require(self, holds: bool, sentence: str) -> None:
        assert holds, f"{self.accounting.title}: {sentence}"

    def _equal(self, a: float, b: float, sentence: str) -> None:
        near = a == b or abs(a - b) <= self.precision * max(abs(a), abs(b))
        self._require(near, f"{sentence}: {a!r} and {b!r}")

    def _refuses(self, history: History, delta: float, sentence: str, *, limit: float | None = None) -> None:
        """It raises, or gives the answer that is right in the limit."""
        try:
            said = self.accounting.epsilon(history, delta)
        except NotCovered:
            return
        except self.refusals:
            return
        self._require(limit is not None and said == limit, f"{sentence} is not refused, epsilon is {said!r}")

    # The clauses

    def epsilon_is_a_number_and_not_negative(self) -> None:
        """Sound histories get an answer in [0, inf]."""
        for history in HISTORIES + MIXED:
            for delta in (1e-9, 0.1):
                said = self._says(history, delta)
                inside = said is None or said >= 0.0
                self._require(inside, f"epsilon of {_show(history)} at delta {delta:g} is {said!r}")
        # a delta so large that the curve that a Rényi order proves is below zero
        for history, delta in (([gaussian(50.0, 1)], 0.3), ([sampled(0.01, 5.0, 10)], 0.5)):
            said = self._says(history, delta)
            self._require(said is None or said >= 0.0, f"epsilon of {_show(history)} at delta {delta:g} is {said!r}")

    def rounds_are_releases(self) -> None:
        """n rounds cost what n releases cost."""
        for (part,), said in self._each([[part._replace(rounds=4)] for (part,) in HISTORIES]):
            one_by_one = self._says([part._replace(rounds=1)] * 4)
            assert one_by_one is not None
            self._equal(said, one_by_one, f"4 rounds of {_show([part])} and 4 releases")
        for (part,), said in self._each([[part._replace(rounds=2 * part.rounds)] for (part,) in HISTORIES]):
            in_two = self._says([part._replace(rounds=part.rounds // 2)] * 2)
            assert in_two is not None
            self._equal(said, in_two, f"{_show([part])} at once and in two halves")

    def order_does_not_matter(self) -> None:
        """Parts may come in any order."""
        for history, said in self._each(MIXED):
            backwards = self._says(list(reversed(history)))
            assert backwards is not None
            self._equal(said, backwards, f"{_show(history)} and the same backwards")

    def zero_rounds_cost_nothing(self) -> None:
        """No release costs nothing, alone and beside others."""
        for (part,), said in self._each(HISTORIES):
            nothing = part._replace(rounds=0)
            alone = self._says([nothing])
            self._require(alone == 0.0, f"no round of {_show([part])} costs {alone!r}")
            beside = self._says([nothing, part])
            assert beside is not None
            self._equal(said, beside, f"{_show([part])} alone and beside no round of it")

    def nan_is_refused(self) -> None:
        """NaN in any argument raises."""
        for history in HISTORIES:
            (part,) = history
            for name in part.parameters:
                changed = part._replace(parameters={**part.parameters, name: math.nan})
                self._refuses([changed], DELTA, f"{name} = nan of {part.kind}")
            self._refuses([part._replace(rounds=math.nan)], DELTA, f"rounds = nan of {part.kind}")
            self._refuses(history, math.nan, f"delta = nan of {part.kind}")

    def what_lies_outside_is_refused(self) -> None:
        """Values just outside their range raise, or get the answer that is right in the limit."""
        tiny, hair = -5e-324, 1.0 + 2.0**-52
        for history in HISTORIES:
            (part,) = history
            for name, value, limit in (
                ("noise_multiplier", -1.0, None),
                ("noise_multiplier", tiny, None),
                ("noise_multiplier", 0.0, math.inf),
                ("sampling_rate", tiny, None),
                ("sampling_rate", hair, None),
                ("sampling_rate", 256.0, None),
                ("epsilon", -1.0, None),
            ):
                if name in part.parameters:
                    changed = part._replace(parameters={**part.parameters, name: value})
                    self._refuses([changed], DELTA, f"{name} = {value!r} of {part.kind}", limit=limit)
            for rounds in (-1, 2.5):
                self._refuses([part._replace(rounds=rounds)], DELTA, f"rounds = {rounds} of {part.kind}")
            for delta, limit in ((tiny, math.inf), (-1e-5, math.inf), (hair, 0.0), (2.0, 0.0), (1.0, 0.0)):
                self._refuses(history, delta, f"delta = {delta!r} of {part.kind}", limit=limit)

    def never_below_the_truth(self) -> None:
        """No answer is below what is known without dprounds, by anything; an error, or none in time, is no answer."""
        below = []
        for source, history, delta, least in known_truths():
            try:
                said = self._says(history, delta)
            except self.refusals:
                continue
            except TimeoutError:
                continue
            if said is not None and not said >= least:
                below.append(f"{_show(history)} at delta {delta:g}: {said!r} < {least!r} ({source})")
        self._require(not below, "below the truth: " + "; ".join(below))

    def grows_with_rounds(self) -> None:
        """More rounds never cost less."""
        for part in (gaussian(5.0, 1), sampled(0.01, 1.0, 200), laplace(20.0, 1), response(0.5, 1)):
            self._rises(part.kind + " rounds", [[part._replace(rounds=k * part.rounds)] for k in (1, 2, 20)])

    def grows_with_few_sampled_rounds(self) -> None:
        """Nor do more rounds of a sampled mechanism, from the first round on."""
        self._rises("sampled-gaussian rounds", [[sampled(0.01, 1.0, k)] for k in (1, 10, 100, 1_000)])

    def falls_with_noise(self) -> None:
        """More noise never costs more."""
        noises = (8.0, 4.0, 2.0, 1.0)
        self._rises("gaussian less noise", [[gaussian(s, 10)] for s in noises])
        self._rises("sampled-gaussian less noise", [[sampled(0.05, s, 1_000)] for s in noises])
        self._rises("laplace less noise", [[laplace(s, 1)] for s in noises])
        self._rises("randomized-response larger epsilon", [[response(e, 6)] for e in (0.1, 0.5, 2.0)])

    def grows_with_the_rate(self) -> None:
        """A larger sample never costs less, and the whole is the mechanism itself."""
        self._rises("sampled-gaussian rate", [[sampled(q, 2.0, 2_000)] for q in (0.005, 0.02, 0.1, 0.5)])
        whole, itself = self._says([sampled(1.0, 2.0, 30)]), self._says([gaussian(2.0, 30)])
        if whole is not None and itself is not None:
            self._equal(whole, itself, "a sample of all and no sample")

    def falls_with_delta(self) -> None:
        """A larger delta never needs a larger epsilon."""
        for history in HISTORIES + MIXED:
            said = [one for delta in (0.1, 1e-5, 1e-9) if (one := self._says(history, delta)) is not None]
            self._sorted(said, f"epsilon of {_show(history)} as delta falls")

    def delta_and_epsilon_agree(self) -> None:
        """Delta at the epsilon of a delta is that delta at most."""
        for history, said in self._each(HISTORIES + MIXED):
            # the error in epsilon that it states, on the cheap side
            asked = said * (1.0 + self.precision)
            try:
                back = self.accounting.delta(history, asked)
            except NotCovered:
                continue
            self._require(back <= DELTA * (1.0 + 1e-6), f"delta of {_show(history)} at epsilon {asked!r} is {back!r}")
            self._require(back >= 0.0, f"delta of {_show(history)} is {back!r}")

    # What the clauses share

    def _rises(self, what: str, histories: list[History]) -> None:
        self._sorted([one for history in histories if (one := self._says(history)) is not None], f"epsilon with {what}")

    def _sorted(self, answers: list[float], sentence: str) -> None:
        # neighbours' brackets differ in width: 1e-6, or what it states
        slack = 1.0 - max(self.precision, 1e-6)
        self._require(all(b >= a * slack for a, b in pairwise(answers)), f"{sentence} is not monotone: {answers}")


def _show(history: History) -> str:
    return " + ".join(
        f"{part.kind}({', '.join(map(str, part.parameters.values()))}) * {part.rounds}" for part in history
    )


CLAUSES: dict[str, Callable[[Contract], None]] = {
    name: clause for name, clause in vars(Contract).items() if not name.startswith("_") and callable(clause)
}

__all__ = ["CLAUSES", "Contract", "Part", "known_truths"]
