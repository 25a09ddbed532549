"""What an attacker can do: false negatives over false positives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.accounting.trade_off import false_negative_rates
from dprounds.curves.profile import last_epsilon, least_deltas
from dprounds.errors import ParameterError
from dprounds.mechanisms.base import Release, Run
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.planning import checked_release

__all__ = ["TradeOffCurve", "trade_off_curve"]

Array = NDArray[np.float64]

RATE = _validate.Interval.parse("[0, 1]")
# The rate of false alarms at which attacks are compared.
FEW_FALSE_ALARMS = 0.01
# The profile is computed here and interpolated between, from above: that and the end cost less than a line is wide.
# Where losses lie on a lattice it has corners, which more points come closer to.
PROFILE_POINTS = 101
PROFILE_POINTS_OF_A_LATTICE = 201
# Where no neighbours are known to come near the law, and each point takes longer.
PROFILE_POINTS_OF_A_BOUND = 33
LAST_DELTA = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class TradeOffCurve:
    """The best that any attacker can do who tells whether a record was in the data.

    Attributes
    ----------
    run
        What was released.
    false_positive_rate
        Share of strangers taken for members, increasing.
    false_negative_rate
        Least share of members missed at each; errs downward, so no attacker is below it.
    advantage
        Greatest true-positive less false-positive rate; errs upward.
    true_positive_rate_at_one_percent
        Greatest share of members found with 1 % false alarms; errs upward.
    """

    run: Run
    false_positive_rate: Array
    false_negative_rate: Array
    advantage: float
    true_positive_rate_at_one_percent: float

    def to_rows(self) -> list[dict[str, float]]:
        """A row for every false-positive rate."""
        return [
            {"false_positive_rate": float(positive), "false_negative_rate": float(negative)}
            for positive, negative in zip(self.false_positive_rate, self.false_negative_rate, strict=True)
        ]


def trade_off_curve(run: Release, *, false_positive_rates: ArrayLike | None = None, points: int = 61) -> TradeOffCurve:
    """Least false-negative rate over false-positive rates, from the exact profile where the run has one.

    Guarantee
    ---------
    Raises, or returns rates below which no attacker can be, within a thousandth of those of `run.trade_off`; within a
    few thousandths where losses lie on a lattice, such as those of few rounds of randomized response, and where they
    are a bound alone: batches of fixed size with an emptied record.

    Parameters
    ----------
    run
        A mechanism or a run.
    false_positive_rates
        Where, each in [0, 1]; by default from 0 to 1, denser towards both ends, where the curve bends.
    points
        How many by default, at least 3.

    Examples
    --------
    >>> from dprounds import Gaussian
    >>> curve = trade_off_curve(Gaussian(1.0) * 1, false_positive_rates=[0.1, 0.5])
    >>> curve.false_negative_rate.round(4).tolist(), round(curve.advantage, 4)
    ([0.6108, 0.1586], 0.3829)
    """
    whole = checked_release("run", run) * 1
    points = _validate.count("points", points, least=3)
    if false_positive_rates is None:
        rates = 0.5 - 0.5 * np.cos(np.pi * np.linspace(0.0, 1.0, points))
    else:
        rates = np.unique(_validate.real_array("false_positive_rates", false_positive_rates, RATE))
        if not rates.size:
            raise ParameterError("false_positive_rates must hold one rate or more, got none.")
    # squares, because the profile bends most at small epsilons
    on_lattice = any(law.lattice is not None for law in whole.laws.values())
    count = PROFILE_POINTS_OF_A_LATTICE if on_lattice else PROFILE_POINTS
    if any(law.lattice_precision for law in whole.laws.values()):
        count = PROFILE_POINTS_OF_A_BOUND
    at = last_epsilon(whole, LAST_DELTA) * np.linspace(0.0, 1.0, count) ** 2
    delta = least_deltas(whole, at)
    missed = false_negative_rates(
        lambda epsilon: _between(epsilon, at, delta),
        np.append(rates, FEW_FALSE_ALARMS),
        infinite_mass=whole.infinite_mass,
    )
    found = 1.0 - float(missed[-1]) if whole.parts else FEW_FALSE_ALARMS  # of nothing, no rounding is shown above it
    return TradeOffCurve(
        run=whole,
        false_positive_rate=rates,
        false_negative_rate=missed[:-1],
        advantage=float(delta[0]),
        true_positive_rate_at_one_percent=found,
    )


def _between(epsilon: Array, at: Array, delta: Array) -> Array:
    """Upper bounds of the profile from its values at some epsilons.

    It is convex in exp(epsilon), as the largest of P(A) - exp(epsilon) Q(A) over all events, so its chords lie above
    it; and it falls, so beyond the last value it is below that.
    """
    left = np.clip(np.searchsorted(at, epsilon, side="right") - 1, 0, at.size - 2)
    low, high = at[left], at[left + 1]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        share = np.expm1(epsilon - low) / np.expm1(high - low)
    # a cell too wide for its exponential, or the end: the value at its left is above all that follows
    share = np.where(np.isfinite(share) & (epsilon < high), share, 0.0)
    share = np.where(epsilon >= at[-1], 1.0, share)
    chord = delta[left] + share * (delta[left + 1] - delta[left])
    # the exponents are below 710 where they count, and rounded as such
    return np.asarray(np.minimum(chord + 1000.0 * UNIT_ROUNDOFF, 1.0))
