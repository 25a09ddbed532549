r"""The exact accountant: epsilon and delta as contour integrals of the moment function, between proven bounds.

For any :math:`t > 0`, with :math:`\delta(\varepsilon) = E_P[(1 - e^{\varepsilon - L})_+]` over the finite losses,

.. math:: \delta(\varepsilon) = \frac1{2\pi}\int_{-\infty}^\infty
          \frac{e^{K(t+is) - \varepsilon(t+is)}}{(t+is)(1+t+is)}\,ds .

`saddle` finds where nothing cancels, `loss_law` puts a line there, `line` sums along it with a bound on every error,
and `decay` says where the sum may stop. Where K does not fall fast enough for that, a virtual Gaussian is composed with
the release; its effect is bounded on the same nodes. Here stand the questions: which delta, which epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.line import LOG_MOMENT_ERROR, Brackets, Line, log_zeta
from dprounds.accounting.loss_law import LossLaw, least_mass, line_near
from dprounds.accounting.saddle import Saddle, expand, saddle_at_delta, saddle_at_epsilon
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = [
    "Bracket",
    "LossLaw",
    "crude_delta",
    "delta_bracket",
    "delta_brackets",
    "epsilon_bracket",
    "unproven_epsilon",
    "worst",
]

Array = NDArray[np.float64]

# Far from any privacy numbers overflow; what then is infinite or no number is refused where a bracket is made of it.
LARGE_NUMBERS = np.errstate(over="ignore", invalid="ignore", divide="ignore")
# Where brackets are at most this wide a line serves for another epsilon too.
PRECISION = 1e-9
# Where no line reaches, a lower bound is sought at these relative distances below the largest loss.
CAP_GAPS = (1e-9, 1e-6, 1e-3)
# Where one value of K bounds delta, if no saddle point is found.
SCANNED = (10.0, 100.0, 1e3, 1e4)
# Two or three are typical; the limits end a search that rounding keeps from settling, and what it reached is verified.
MOST_LINES = 40
MOST_STEPS = 60


class Bracket(NamedTuple):
    """Two numbers with the truth between them. The upper one is the answer to report."""

    lower: float
    upper: float


def _settled(law: LossLaw, saddle: Saddle, epsilon: float) -> tuple[Line, Bracket]:
    """A line near a saddle point, made for the delta that it finds, and the bracket of the finite part."""
    log_delta = saddle.log_delta(epsilon)
    for _ in range(3):  # Laplace's method is within a few percent; a second line is rare, and a third mends the second
        line = line_near(law, saddle, epsilon=epsilon, log_delta=log_delta)
        found = _at(line, epsilon)
        if found.upper - found.lower <= PRECISION * found.upper:
            break
        middle = max(found.lower, min(found.upper, line.value_and_slope(epsilon)[0]))
        if not middle > 0 or abs(math.log(middle) - log_delta) < 1.0:
            break
        log_delta = math.log(middle)
    return line, found


def _at(line: Line, epsilon: float) -> Bracket:
    lower, upper = line.bracket(np.array([epsilon]))
    return Bracket(float(lower[0]), float(upper[0]))


def delta_bracket(law: LossLaw, *, epsilon: float, start: float = 1.0) -> Bracket:
    r"""Delta at `epsilon`, from below and from above.

    Guarantee
    ---------
    Raises, or returns bounds with the exact :math:`\delta(\varepsilon)` of this direction between them, if K is
    accurate to `LOG_MOMENT_ERROR` and the ceiling of the law holds. They are within 1e-9 of each other, relatively,
    where K falls fast along the line; elsewhere they tell.

    Parameters
    ----------
    law
        One direction of a release.
    epsilon
        In [0, inf].
    start
        A guess of the saddle point, for speed: `order - 1` of a Rényi bound, or the `t` of a line nearby.

    Theorem
    -------
    [AGACKS23, Section 4] for the integral; docs/theory/accounting.md for the bounds.

    Examples
    --------
    >>> law = LossLaw(log_moment=lambda z: 0.5 * z * (z + 1), ceiling=lambda t, s: 0.5 * (t * (t + 1) - s * s))
    >>> lower, upper = delta_bracket(law, epsilon=1.0)  # the Gaussian mechanism of noise multiplier one
    >>> round(upper, 10), upper - lower < 1e-12
    (0.1269367375, True)
    """
    mass = law.infinite_mass
    if not epsilon < law.max_loss:
        return _with_mass(mass, Bracket(0.0, 0.0))
    saddle = saddle_at_epsilon(law.log_moment, epsilon, start=start)
    return _with_mass(mass, _settled(law, saddle, epsilon)[1])


@LARGE_NUMBERS
def delta_brackets(law: LossLaw, *, epsilon: Array) -> Brackets:
    """`delta_bracket` at every epsilon of a row: a line serves for all around it that it brackets well."""
    given = np.asarray(epsilon, dtype=np.float64)
    lower, upper = np.zeros_like(given), np.zeros_like(given)
    pending = np.argsort(given)[given[np.argsort(given)] < law.max_loss]
    start = 1.0
    while pending.size:
        middle = int(pending[pending.size // 2])
        saddle = saddle_at_epsilon(law.log_moment, float(given[middle]), start=start)
        start = saddle.t
        line, _ = _settled(law, saddle, float(given[middle]))
        found = line.bracket(given[pending])
        served = (found.upper - found.lower <= PRECISION * found.upper) | (pending == middle)
        lower[pending[served]], upper[pending[served]] = found.lower[served], found.upper[served]
        pending = pending[~served]
    both = [_with_mass(law.infinite_mass, Bracket(float(a), float(b))) for a, b in zip(lower, upper, strict=True)]
    return Brackets(np.array([a for a, _ in both]), np.array([b for _, b in both]))


def epsilon_bracket(law: LossLaw, *, delta: float, start: float = 1.0) -> Bracket:
    r"""Epsilon at `delta`, from below and from above.

    Guarantee
    ---------
    Raises, or returns bounds between which lies the least :math:`\varepsilon \ge 0` with
    :math:`\delta(\varepsilon) \le \delta` in this direction, on the conditions of `delta_bracket`: at the upper one
    the upper bound of delta was computed and is at most `delta`, at the lower one the lower bound is at least `delta`.

    Parameters
    ----------
    law
        One direction of a release.
    delta
        In (0, 1).
    start
        As for `delta_bracket`.

    Theorem
    -------
    [AGACKS23, Section 4] for the integral; docs/theory/accounting.md for the bounds.
    """
    return _epsilon(law, delta, start)[0]


def _epsilon(law: LossLaw, delta: float, start: float) -> tuple[Bracket, float]:
    """`epsilon_bracket`, and the t of the line that proved it."""
    if not law.infinite_mass < delta:
        return Bracket(math.inf, math.inf), start
    if not law.max_loss > 0:
        return Bracket(0.0, 0.0), start
    # delta less the mass at infinity, to either side
    rest = Bracket(
        (delta - law.infinite_mass) * (1.0 - 2.0 * UNIT_ROUNDOFF) if law.infinite_mass else delta,
        (delta - least_mass(law.infinite_mass)) * (1.0 + 2.0 * UNIT_ROUNDOFF) if law.infinite_mass else delta,
    )
    if not rest.lower > 0:
        raise NumericalError(f"delta {delta:g} exceeds the infinite mass by less than doubles resolve.")
    try:
        found, t = _finite_epsilon(law, rest, start)
    except NumericalError:
        if not law.max_loss < math.inf:
            raise
        # Close to the cap the line goes to infinity, and its sum out of reach: the cap itself is the answer.
        found, t = Bracket(0.0, law.max_loss), start
    if found.lower == 0 < found.upper == law.max_loss:
        found = Bracket(_below_cap(law, delta), law.max_loss)
    return found, t


def _below_cap(law: LossLaw, delta: float) -> float:
    """An epsilon close to the largest loss at which delta is proven not to be met; 0 if none is found."""
    for gap in CAP_GAPS:
        try:
            if delta_bracket(law, epsilon=law.max_loss * (1.0 - gap)).lower >= delta:
                return law.max_loss * (1.0 - gap)
        except NumericalError:
            continue
    return 0.0


@LARGE_NUMBERS
def unproven_epsilon(law: LossLaw, *, delta: float, start: float = 1.0) -> tuple[float, float]:
    """About the epsilon at `delta`, by the sum along a line without its error, and the t of the line.

    Guarantee
    ---------
    None: it proves nothing, and is a guess for a search that checks. Raises `NumericalError` where no line serves.
    """
    _refuse_flat(law)
    if not law.infinite_mass < delta:
        raise NumericalError(f"delta {delta:g} is used up by the infinite mass.")
    epsilon, line = _on_line(law, math.log(delta - law.infinite_mass), start)
    return epsilon, line.t


def _finite_epsilon(law: LossLaw, rest: Bracket, start: float) -> tuple[Bracket, float]:
    """`_epsilon` where the finite losses may take up `rest`."""
    epsilon, line = _on_line(law, math.log(rest.lower), start)
    return _verified(law, line, epsilon, rest), line.t


def _on_line(law: LossLaw, log_delta: float, start: float) -> tuple[float, Line]:
    """About the epsilon at which the finite losses take up delta, 0 if they do so nowhere, and a line near it."""
    saddle = saddle_at_delta(law.log_moment, log_delta, start=start)
    epsilon = saddle.epsilon
    if not 0 < epsilon < law.max_loss:
        # Laplace's method is off by more than the distance to an end: 0 may be the answer itself.
        epsilon = 0.0 if epsilon <= 0 else 0.5 * law.max_loss
        saddle = saddle_at_epsilon(law.log_moment, epsilon, start=saddle.t)
    line, _ = _settled(law, saddle, epsilon)
    return _newton(law, saddle, line, epsilon, log_delta)


def _newton(law: LossLaw, saddle: Saddle, line: Line, epsilon: float, log_delta: float) -> tuple[float, Line]:
    """About the epsilon at which the sum is delta, and a line made near it."""
    low, high = 0.0, law.max_loss
    made_at = epsilon
    lines = 1
    for _ in range(MOST_STEPS):
        value, slope = line.value_and_slope(epsilon)
        if not (value > 0 and slope < 0):
            break
        excess = math.log(value) - log_delta
        low, high = (epsilon, high) if excess > 0 else (low, epsilon)
        following = epsilon - excess * value / slope
        if high == 0:
            break  # delta is already met at 0
        if following <= 0 and low == 0 and epsilon > 0:
            following = 0.0
        elif not low <= following <= high:
            following = 0.5 * (low + min(high, 2.0 * low + 1.0))
        moved, epsilon = abs(following - epsilon), following
        if moved <= 4.0 * UNIT_ROUNDOFF * epsilon or moved * line.t <= 1e-13:
            break
        # The saddle point moves by a width as epsilon moves by one over it.
        if abs(epsilon - made_at) * saddle.width > 0.5 and lines < MOST_LINES:
            saddle = saddle_at_epsilon(law.log_moment, epsilon, start=saddle.t)
            line, _ = _settled(law, saddle, epsilon)
            made_at, lines = epsilon, lines + 1
    return epsilon, line


def _verified(law: LossLaw, line: Line, epsilon: float, rest: Bracket) -> Bracket:
    """The nearest epsilons on either side of a guess at which the line proves that delta is met, and that it is not."""
    found = _at(line, epsilon)
    if epsilon == 0 and found.upper <= rest.lower:
        return Bracket(0.0, 0.0)
    value, slope = line.value_and_slope(epsilon)
    if not (value > 0 and slope < 0):
        raise NumericalError("The exact sum of this run lost all its digits.")
    least = 4.0 * UNIT_ROUNDOFF * epsilon + UNIT_ROUNDOFF / line.t
    upper = law.max_loss
    step = max((found.upper - rest.lower) / -slope * (1.0 + PRECISION), 0.0)
    for _ in range(MOST_STEPS):
        if epsilon + step >= law.max_loss:
            break  # no finite loss is above it, so nothing is left of delta
        if _at(line, epsilon + step).upper <= rest.lower:
            upper = epsilon + step
            break
        step = max(2.0 * step, least)
    if upper == math.inf:
        raise NumericalError("The exact sum of this run does not settle epsilon.")
    lower = 0.0
    step = max((rest.upper - found.lower) / -slope * (1.0 + PRECISION), 0.0)
    for _ in range(MOST_STEPS):
        if epsilon - step <= 0:
            break
        if _at(line, epsilon - step).lower >= rest.upper:
            lower = epsilon - step
            break
        step = max(2.0 * step, least)
    return Bracket(min(lower, upper), upper)


def _with_mass(mass: float, finite: Bracket) -> Bracket:
    """The brackets of all of delta, given those of the finite losses."""
    if not mass:
        return finite
    return Bracket(
        (least_mass(mass) + finite.lower) * (1.0 - 2.0 * UNIT_ROUNDOFF),
        min((mass + finite.upper) * (1.0 + 2.0 * UNIT_ROUNDOFF), 1.0),
    )


@LARGE_NUMBERS
def worst(laws: Sequence[LossLaw], *, epsilon: float | None = None, delta: float | None = None) -> Bracket:
    """The bracket of a release that must be accounted in several directions: delta at `epsilon`, or epsilon at `delta`.

    The larger of the directions. For epsilon, a direction that one value of delta shows to be the smaller costs no more
    than that.
    """
    if (epsilon is None) == (delta is None):
        raise TypeError("worst takes either epsilon or delta")
    lower, upper, start = 0.0, 0.0, 1.0
    for law in laws:
        _refuse_flat(law)
        if epsilon is not None:
            if lower > 0 and crude_delta(law, epsilon, start) <= lower:
                continue
            here = delta_bracket(law, epsilon=epsilon, start=start)
        elif delta is not None:
            if 0 < lower < math.inf and _is_met(law, lower, delta, start):
                continue
            here, start = _epsilon(law, delta, start)
        lower, upper = max(lower, here.lower), max(upper, here.upper)
    return Bracket(lower, upper)


def _refuse_flat(law: LossLaw) -> None:
    """Raise where no line can serve, before anything is computed."""
    if law.ceiling is None and not law.smoothed:
        raise NumericalError("The exact sum of this run does not converge.")


def _is_met(law: LossLaw, epsilon: float, delta: float, start: float) -> bool:
    """Whether one value of delta shows that `delta` is met at `epsilon`."""
    if not epsilon < law.max_loss:
        return law.infinite_mass <= delta
    saddle = _about_saddle(law, epsilon, start)
    if _crude_delta(law, saddle, epsilon) <= delta:
        return True
    return _with_mass(law.infinite_mass, _settled(law, saddle, epsilon)[1]).upper <= delta


def crude_delta(law: LossLaw, epsilon: float, start: float = 1.0) -> float:
    """An upper bound of delta from one value of K: infinite mass plus zeta(t) exp(K(t) - t epsilon)."""
    if not epsilon < law.max_loss:
        return law.infinite_mass
    return _crude_delta(law, _about_saddle(law, epsilon, start), epsilon)


def _about_saddle(law: LossLaw, epsilon: float, start: float) -> Saddle:
    """The saddle point, or the best of a few points where K is out of reach before it: any of them bounds delta.

    So it is above the largest loss of one part, if another has a larger one that next to no mass is near.
    """
    try:
        return saddle_at_epsilon(law.log_moment, epsilon, start=start)
    except NumericalError:
        found = []
        for t in SCANNED:
            with suppress(NumericalError):
                found.append(expand(law.log_moment, t))
        if not found:
            raise
        return min(found, key=lambda one: one.value - one.t * epsilon)


def _crude_delta(law: LossLaw, saddle: Saddle, epsilon: float) -> float:
    t, value = saddle.t, saddle.value
    # a thousand times the error that K may have, since this is not to be close
    error = 1000.0 * LOG_MOMENT_ERROR * (abs(value) + t * epsilon + 1.0)
    return law.infinite_mass + math.exp(min(float(log_zeta(np.array(t))) + value - t * epsilon + error, 0.0))
