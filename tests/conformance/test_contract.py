"""Each clause can fail: accountants that are broken on purpose, and the clauses that must catch them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import pytest

from benchmarks.peers import History, NotCovered, Part
from dprounds import ParameterError
from tests.conformance.accountants import Api
from tests.conformance.contract import CLAUSES, Contract, known_truths


class ForgetsTheCount(Api):
    """Charges one round for any number of them."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon([part._replace(rounds=min(part.rounds, 1)) for part in history], delta)


class TakesNanForNothing(Api):
    """Finds no cost where an argument is not a number."""

    def epsilon(self, history: History, delta: float) -> float:
        numbers = [delta, *(x for part in history for x in (*part.parameters.values(), part.rounds))]
        return 0.0 if any(math.isnan(x) for x in numbers) else super().epsilon(history, delta)


class TooSmallByAMillionth(Api):
    """As close as rounding for the eye, on the wrong side."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon(history, delta) * (1.0 - 1e-6)


class GoesBelowZero(Api):
    """Converts from a Rényi order without the maximum with zero."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon(history, delta) or -0.01


class AnswersNan(Api):
    """Loses its precision at small deltas and does not say so."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon(history, delta) if delta > 1e-7 else math.nan


class ForgetsTheFirst(Api):
    """Charges the last part only."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon(history[-1:], delta)


class ChargesForNothing(Api):
    """Starts to count at one."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon([part._replace(rounds=max(part.rounds, 1)) for part in history], delta)


class ClipsArguments(Api):
    """Moves what lies outside to the nearest end, without a word."""

    def epsilon(self, history: History, delta: float) -> float:
        clipped = [part._replace(rounds=max(part.rounds, 0)) for part in history]
        return super().epsilon(clipped, delta)


class TakesBatchSizesForRates(Api):
    """Takes any sampling rate above one for the whole."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon([_with(part, "sampling_rate", lambda q: min(q, 1.0)) for part in history], delta)


class FewRoundsAreDear(Api):
    """Has a fixed price below fifty rounds."""

    def epsilon(self, history: History, delta: float) -> float:
        few = 0 < sum(part.rounds for part in history) < 15
        return 20.0 if few else super().epsilon(history, delta)


class InvertsTheNoise(Api):
    """Takes a multiplier for its inverse."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon([_with(part, "noise_multiplier", lambda s: 8.0 / s) for part in history], delta)


class IgnoresTheRate(Api):
    """Accounts for the sample as for what is left out of it."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon([_with(part, "sampling_rate", lambda q: 0.6 - q) for part in history], delta)


class InvertsDelta(Api):
    """Takes a failure mass for a confidence."""

    def epsilon(self, history: History, delta: float) -> float:
        return super().epsilon(history, 1e-11 / delta)


class TellsTwoStories(Api):
    """Has a delta that does not belong to its epsilon."""

    def delta(self, history: History, epsilon: float) -> float:
        return 1.01 * super().delta(history, epsilon)


def _with(part: Part, name: str, change: Callable[[float], float]) -> Part:
    if name not in part.parameters:
        return part
    return part._replace(parameters={**part.parameters, name: change(part.parameters[name])})


CAUGHT: list[tuple[type[Api], str]] = [
    (ForgetsTheCount, "rounds_are_releases"),
    (ForgetsTheCount, "never_below_the_truth"),
    (TakesNanForNothing, "nan_is_refused"),
    (TooSmallByAMillionth, "never_below_the_truth"),
    (TooSmallByAMillionth, "delta_and_epsilon_agree"),
    (GoesBelowZero, "epsilon_is_a_number_and_not_negative"),
    (AnswersNan, "epsilon_is_a_number_and_not_negative"),
    (AnswersNan, "never_below_the_truth"),
    (AnswersNan, "falls_with_delta"),
    (ForgetsTheFirst, "order_does_not_matter"),
    (ForgetsTheFirst, "rounds_are_releases"),
    (ChargesForNothing, "zero_rounds_cost_nothing"),
    (ClipsArguments, "what_lies_outside_is_refused"),
    (TakesBatchSizesForRates, "what_lies_outside_is_refused"),
    (FewRoundsAreDear, "grows_with_rounds"),
    (FewRoundsAreDear, "grows_with_few_sampled_rounds"),
    (InvertsTheNoise, "falls_with_noise"),
    (IgnoresTheRate, "grows_with_the_rate"),
    (InvertsDelta, "falls_with_delta"),
    (TellsTwoStories, "delta_and_epsilon_agree"),
]


@pytest.mark.parametrize(("broken", "clause"), CAUGHT, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_accountant_is_caught(broken: type[Api], clause: str) -> None:
    with pytest.raises(AssertionError, match=r"^dprounds: "):
        CLAUSES[clause](Contract(broken(), precision=1e-12))


def test_every_clause_catches_some_broken_accountant() -> None:
    assert {clause for _, clause in CAUGHT} == set(CLAUSES)


def test_a_clause_that_covers_nothing_does_not_pass() -> None:
    class KnowsNothing(Api):
        title: ClassVar[str] = "nothing"

        def _mechanism(self, kind: str, parameters: object) -> object:
            raise NotCovered(kind)

    with pytest.raises(AssertionError, match="nothing: covers none"):
        CLAUSES["rounds_are_releases"](Contract(KnowsNothing(), precision=0.0))


def test_the_truths_are_many_and_of_four_kinds() -> None:
    sources = [source for source, *_ in known_truths()]
    assert set(sources) == {"closed form", "binomial sum", "published value", "arbitrary precision"}
    assert len(sources) >= 20


def test_a_refusal_is_an_error_of_the_library_or_of_python() -> None:
    assert issubclass(ParameterError, Contract(Api(), precision=0.0).refusals)
