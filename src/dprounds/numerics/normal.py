r"""Two normal laws of variance one: how far one of them exceeds a multiple of the other.

With :math:`R(x) = \Phi(-x)/\varphi(x)` (Mills' ratio), which falls from infinity to zero,

.. math:: E(\ell) = \Phi(-a) - e^\ell\,\Phi(-b) = \varphi(a)\,(R(a) - R(b)),
          \qquad a = \ell/\mu - \mu/2, \quad b = a + \mu .

Both forms are the same because :math:`e^\ell \varphi(b) = \varphi(a)`. The second one has no large factor.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Estimate", "mills_ratio", "normal_excess", "normal_quantile", "normal_tail"]

ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
# (1 + x) R(x) in Chebyshev polynomials of (x - 5) / (x + 5), which goes from -1 to 1 as x goes from 0 to infinity: the
# terms beyond these add less than 1e-17. Its own series, so that no question has to wait for SciPy to load.
CENTRE = 5.0
RATIO_SERIES = (
    1.1579976221305188,
    -0.1633449388451398,
    -0.013683136055781576,
    0.03082200019810004,
    -0.016220073012046806,
    0.005616691016460094,
    -0.0014133933783549216,
    0.0002502625460725661,
    -2.468907239728387e-05,
    -1.0107964061837592e-06,
    7.495419179740573e-07,
    -7.600274268728337e-08,
    -1.1574771441328644e-08,
    3.333386472599843e-09,
    7.538039628171347e-11,
    -1.1104247263727494e-10,
    3.509243776551059e-12,
    3.6894953861750955e-12,
    -2.3376697776383095e-13,
    -1.3271797523541405e-13,
    9.921706995888276e-15,
    5.276004995455379e-15,
    -3.373097694187922e-16,
    -2.2804338776379946e-16,
    7.496330565808626e-18,
    1.0328041877290668e-17,
)
REVERSED_SERIES = RATIO_SERIES[:0:-1]
# From here on R(x) is 1 / x to the last digit: it is between 1 / x and x / (x^2 + 1).
FAR = 1e10
# Below this a, E is computed as its distance to one.
LEFT = -1.0
LOG_HALF = math.log(0.5)
# Newton's method for a quantile doubles its digits, from one or two.
MOST_STEPS = 12

# --- What carries a proof; measured against arbitrary precision in tests/numerics/test_normal.py.

# Relative error of `mills_ratio` from -1 on. The sizes of the terms add up to 2.6, their sum is at least 1, and each is
# rounded a few times. Measured: below 8 units of rounding (tests/numerics/test_normal.py).
RATIO_ERROR = 16.0 * UNIT_ROUNDOFF


class Estimate(NamedTuple):
    """A number that is known to an absolute error."""

    value: float
    error: float


def mills_ratio(x: float) -> float:
    """The upper tail of the standard normal law over its density at x, for x in [-1, inf)."""
    if x < 0:
        return ROOT_TWO_PI * math.exp(0.5 * x * x) - mills_ratio(-x)
    if x > FAR:
        return 1.0 / x
    twice = 2.0 * (x - CENTRE) / (x + CENTRE)
    one = two = 0.0
    for coefficient in REVERSED_SERIES:  # Clenshaw's recurrence
        one, two = coefficient + twice * one - two, one
    return (RATIO_SERIES[0] + 0.5 * twice * one - two) / (1.0 + x)


def normal_tail(x: float, *, level: float = 0.0) -> Estimate:
    r"""The upper tail of the standard normal law, :math:`e^\ell\,\Phi(-x)`; the factor spares what would overflow.

    Guarantee
    ---------
    The truth at every number within one rounding of `x` is within the error that comes with the value, if `mills_ratio`
    is within `RATIO_ERROR` of itself.

    Examples
    --------
    >>> round(normal_tail(1.0).value, 6), round(normal_tail(-1.0).value, 6)
    (0.158655, 0.841345)
    """
    if not abs(x) < 1e150:  # the square of x would overflow
        raise NumericalError("A normal law is asked for further out than doubles reach.")
    if x < LEFT:
        rest = normal_tail(-x)
        factor = math.exp(level)
        value = factor * (1.0 - rest.value)
        return Estimate(value, factor * rest.error + UNIT_ROUNDOFF * (abs(level) + 8.0) * value + 1e-322)
    value = math.exp(level - 0.5 * x * x) / ROOT_TWO_PI * mills_ratio(x)
    # Units of the exponent and a few more. A rounding of x changes the logarithm of the tail by |x| units times its
    # slope, 1 / R(x), which is at most |x| + 1.
    relative = UNIT_ROUNDOFF * (abs(level) + 3.0 * x * x + abs(x) + 8.0) + RATIO_ERROR
    return Estimate(value, relative * value * (1.0 + 1e-9) + 1e-322)


def normal_quantile(log_tail: float) -> float:
    r"""About the x whose upper tail is :math:`e^\ell`, for a logarithm :math:`\ell` in (-inf, 0): to some units of x.

    The logarithm of the tail is concave and its slope is one over Mills' ratio, so that Newton's method settles soon.

    Examples
    --------
    >>> round(normal_quantile(math.log(0.025)), 6), round(normal_quantile(math.log(0.975)), 6)
    (1.959964, -1.959964)
    """
    if log_tail > LOG_HALF:  # then the other tail is the smaller one
        return -normal_quantile(math.log(-math.expm1(log_tail)))
    x = math.sqrt(2.0 * (LOG_HALF - log_tail))  # the tail is at most half of exp(-x^2 / 2)
    for _ in range(MOST_STEPS):
        ratio = mills_ratio(x)
        step = ratio * (math.log(ratio / ROOT_TWO_PI) - 0.5 * x * x - log_tail)
        x = max(x + step, 0.0)
        if abs(step) <= 4.0 * UNIT_ROUNDOFF * x:
            break
    return x


def normal_excess(distance: float, level: float, *, distance_error: float = 0.0) -> Estimate:
    r"""The largest :math:`P(A) - e^\ell Q(A)` over events, for normal laws of variance one at a distance.

    Guarantee
    ---------
    The truth is within the error that comes with the value, if `mills_ratio` is within `RATIO_ERROR` of itself.

    Parameters
    ----------
    distance
        :math:`\mu`, of the means, in (0, inf).
    level
        :math:`\ell`, in [0, inf).
    distance_error
        By how much the distance may be off, relative to it.

    Examples
    --------
    >>> round(normal_excess(1.0, 0.0).value, 6)    # the total variation
    0.382925
    """
    scaled = level / distance
    a = scaled - 0.5 * distance
    # The a of doubles is that of another level, off by at most `moved`.
    moved = 2.0 * UNIT_ROUNDOFF * distance * (scaled + abs(a))
    b = a + distance
    if not abs(a) < 1e150:  # the square of a would overflow: the density is zero, up to the least double
        return Estimate(0.0 if a > 0 else 1.0, 5e-324 if a > 0 else UNIT_ROUNDOFF)
    density = math.exp(-0.5 * a * a) / ROOT_TWO_PI
    at_b = mills_ratio(b)
    # the density errs by units of its exponent and a few more; what underflows is less than the least double
    relative = UNIT_ROUNDOFF * (a * a + 8.0)
    # R' = b R - 1 is between 0 and -1 / (1 + b^2) for positive b, and b >= distance / 2 > 0
    at_b_error = RATIO_ERROR * at_b + UNIT_ROUNDOFF * b / (1.0 + b * b)
    if a >= LEFT:
        at_a = mills_ratio(a)
        value = density * (at_a - at_b)
        error = density * (RATIO_ERROR * at_a + at_b_error)
    else:
        rest = density * (mills_ratio(-a) + at_b)  # what E is below one
        value = 1.0 - rest
        error = density * (RATIO_ERROR * mills_ratio(-a) + at_b_error) + relative * rest + UNIT_ROUNDOFF
    # the derivative in the level is -density * R(b), and in the distance it is the density
    error += relative * value + (moved * at_b + distance * distance_error) * density
    return Estimate(value, error * (1.0 + 1e-9) + 1e-322)
