"""Slips of a mechanism of one's own: each is refused in one line, and none makes an epsilon smaller."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dprounds import Accountant, ParameterError, RandomizedResponse
from dprounds.accounting.law import LossLaw
from dprounds.mechanisms import Mechanism, Release
from dprounds.mechanisms.accounted import Accounted


@dataclass(frozen=True, repr=False)
class Claimed(Accounted, Mechanism):
    """A randomized response of loss 1, of which something else may be said."""

    largest: float = 1.0
    factor: float = 1.0
    mass: float = 0.0

    @property
    def infinite_mass(self) -> float:
        return self.mass

    def _log_moment(self, z: Any, direction: str) -> Any:
        return self.factor * RandomizedResponse(1.0)._log_moment(z, direction)

    def _max_loss(self, direction: str) -> float:
        return self.largest


QUESTIONS: list[Callable[[Release], object]] = [
    lambda one: (one * 1).epsilon(delta=1e-5),
    lambda one: (one * 100).epsilon(delta=1e-5),
    lambda one: (one * 100).epsilon(delta=1e-5, method="optimal"),
    lambda one: (one * 100).delta(epsilon=0.0),
    lambda one: (one * 100).delta(epsilon=0.0, method="moments"),
    lambda one: (one * 3).profile([0.0, 1.0]),
    lambda one: (one + RandomizedResponse(10.0)).epsilon(delta=1e-5),
    lambda one: one.rdp(100.0),
    lambda one: one.rdp(math.inf),
    lambda one: (one * 3).epsilon(delta=0.0),
    lambda one: (one * 3).epsilon(delta=0.0, method="moments"),
    lambda one: (one + RandomizedResponse(10.0)).epsilon(delta=0.0),
]
FALSE = [
    Claimed(0.0),
    Claimed(math.nan),
    Claimed(-1.0),
    Claimed(0.5),
    Claimed(0.99),
    Claimed(1.0, factor=-1.0),
    Claimed(1.0, factor=1.5),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=range(len(QUESTIONS)))
@pytest.mark.parametrize("claim", FALSE, ids=repr)
def test_a_largest_loss_that_the_moments_contradict_is_refused(claim: Claimed, question: Any) -> None:
    with pytest.raises(ParameterError, match=r"Claimed\(.* contradicts itself: the .* must .*, got .*\.$") as caught:
        question(claim)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_what_is_true_is_believed() -> None:
    for question in QUESTIONS:
        assert np.all(np.asarray(question(Claimed())) >= 0)
    assert (Claimed() * 100).epsilon(delta=1e-5) == pytest.approx(
        (RandomizedResponse(1.0) * 100).epsilon(delta=1e-5), rel=1e-3
    )
    assert (Claimed(2.0) * 1).epsilon(delta=1e-5) >= 0.9999  # a largest loss may be stated too large


@pytest.mark.parametrize("mass", [math.nan, -0.1, 1.1])
def test_a_mass_that_is_no_probability_is_refused(mass: float) -> None:
    with pytest.raises(ParameterError, match="mass at infinity must be in"):
        Claimed(mass=mass).law()
    with pytest.raises(ParameterError, match="mass at infinity must be in"):
        LossLaw(log_moment=lambda z: 0.5 * z * (z + 1), infinite_mass=mass)


@dataclass(repr=False)
class Thawed(Mechanism):
    """Declared without `frozen=True`, so that it may change after it was counted."""

    loss: float = 1.0

    def _log_moment(self, z: Any, direction: str) -> Any:
        return RandomizedResponse(self.loss)._log_moment(z, direction)

    def _max_loss(self, direction: str) -> float:
        return self.loss


@dataclass(frozen=True, repr=False)
class Bare(Mechanism):
    """Without a parameter."""

    def _log_moment(self, z: Any, direction: str) -> Any:
        return RandomizedResponse(1.0)._log_moment(z, direction)

    def _max_loss(self, direction: str) -> float:
        return 1.0


class Plain(Mechanism):
    """No dataclass at all."""

    _log_moment = Bare._log_moment
    _max_loss = Bare._max_loss


def test_a_mechanism_that_may_change_is_told_how_to_be_declared() -> None:
    for use in (
        lambda: Thawed() * 3,
        lambda: Thawed() + Thawed(),
        lambda: Accountant().record(Thawed()),
        lambda: Accountant().record(Thawed(), rounds=2),
    ):
        with pytest.raises(ParameterError, match=r"declare Thawed @dataclass\(frozen=True, repr=False\)"):
            use()


def test_mechanisms_without_parameters_or_fields_can_be_printed_and_asked() -> None:
    assert repr(Bare()) == "Bare()"
    assert "Plain" in repr(Plain())
    for one in (Bare(), Plain()):
        assert (one * 3).epsilon(delta=1e-5) == pytest.approx(
            (RandomizedResponse(1.0) * 3).epsilon(delta=1e-5), rel=1e-3
        )
