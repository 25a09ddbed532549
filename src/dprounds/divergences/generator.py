"""A user's convex function as an f-divergence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import Interval, real, real_array
from dprounds.divergences.family import Divergence
from dprounds.divergences.kernels import log_sigmoid
from dprounds.errors import ParameterError

__all__ = ["f_divergence"]

Array = NDArray[np.float64]
Function = Callable[[Array], ArrayLike]

POSITIVE = Interval.parse("(0, inf)")
EXTENDED_REAL = Interval.parse("(-inf, inf]")

# Ratios from 2e-9 to 5e8, four per factor of e: where the function is looked at before it is trusted.
SAMPLE = np.exp(np.linspace(-20.0, 20.0, 161))
# A function written with logarithms cancels a few digits at large ratios; seven digits still show a wrong bend.
SAMPLE_ERROR = 1e-9
# exp(700) is the last round number before doubles end.
LARGEST_LOG_RATIO = 700.0

# Next to ratio one a function as written keeps no digit (f is about x², its rounding error 1e-16), so there it is
# continued by the polynomial through six nodes a side. At the widest radius that has an error near 1e-10; a corner
# close to one asks for a smaller radius.
NODES = np.arange(1.0, 7.0)
RADII = (1e-2, 1e-3, 1e-4)
# Lagrange's weights for the value at x = 0, of a function of x and of a function of x².
LIMIT = np.array([np.prod([j / (j - k) for j in NODES if j != k]) for k in NODES])
EVEN_LIMIT = np.array([np.prod([j * j / (j * j - k * k) for j in NODES if j != k]) for k in NODES])


def f_divergence(
    function: Function,
    *,
    at_zero: float | None = None,
    slope_at_infinity: float | None = None,
    kinks: Sequence[float] = (),
    name: str | None = None,
) -> Divergence:
    r"""The divergence :math:`E_Q[f(dP/dQ)]` of a convex function f of the likelihood ratio.

    Parameters
    ----------
    function
        Takes an array of ratios in (0, inf), returns f of each. Convex, finite, zero at one.
    at_zero
        :math:`f(0)`, in (-inf, inf]; read off `function` unless given.
    slope_at_infinity
        :math:`\lim f(t)/t`, in (-inf, inf]; read off `function` at its largest finite ratio unless given, and taken
        as inf where the slope still grows there.
    kinks
        Ratios in (0, inf) at which f has a corner. A joint range is exact at corners that it knows, and within about
        eight digits at others.
    name
        How it prints; the function's own name unless given.

    Guarantee
    ---------
    Raises, or returns a divergence of a function that looked convex at 161 ratios between exp(-20) and exp(20). As f is
    only known as written, divergences below about 1e-6 have nine digits, others those of `function`.

    Examples
    --------
    >>> import numpy as np
    >>> triangular = f_divergence(lambda t: (t - 1) ** 2 / (t + 1), name="triangular")
    >>> round(triangular([0.5, 0.5], [0.25, 0.75]), 6)
    0.133333
    """
    if not callable(function):
        raise ParameterError(f"function must be a callable of the likelihood ratio, got {function!r}.")
    title = name if name is not None else getattr(function, "__name__", repr(function))
    sample = _evaluate(function, SAMPLE)
    _check_convex(sample)
    at_one = float(_evaluate(function, np.array([1.0]))[0])
    size = float(np.abs(sample[np.abs(np.log(SAMPLE)) <= 1.0]).max())
    if not abs(at_one) <= 1e-12 * (1.0 + size):
        raise ParameterError(f"function must be zero at ratio 1, got {at_one:.17g}. Subtract that constant.")
    near_one = _expansion(function)
    rest = np.abs(sample - near_one.slope * (SAMPLE - 1.0))
    if not (rest > SAMPLE_ERROR * (np.abs(sample) + np.abs(near_one.slope) * np.abs(SAMPLE - 1.0))).any():
        raise ParameterError("function must bend somewhere, got a multiple of t - 1, whose divergence is zero.")
    reach = _reach(function)
    zero = _value_at_zero(function) if at_zero is None else real("at_zero", at_zero, EXTENDED_REAL)
    if slope_at_infinity is None:
        slope = _slope_at_infinity(function, reach)
    else:
        slope = real("slope_at_infinity", slope_at_infinity, EXTENDED_REAL)
    return Divergence(
        name=title,
        log_kernel=_GeneratorKernel(function, near_one),
        # both are non-negative for a convex f; rounding may say otherwise by a hair
        at_zero=max(zero + near_one.slope, 0.0),
        slope_at_infinity=max(slope - near_one.slope, 0.0),
        log_kinks=tuple(float(u) for u in np.log(real_array("kinks", list(kinks), POSITIVE))) if len(kinks) else (),
        largest_log_ratio=reach,
    )


@dataclass(frozen=True)
class _Expansion:
    """f(1 + x) = slope x + |x|^power times a polynomial in |x| on either side of one."""

    radius: float
    slope: float
    power: int
    left: tuple[float, ...]
    right: tuple[float, ...]

    def __call__(self, x: Array) -> Array:
        """f - slope x, for |x| up to the radius."""
        size = np.abs(x) / self.radius
        bend = np.where(x < 0, np.polyval(self.left, size), np.polyval(self.right, size))
        return np.asarray(np.maximum(bend, 0.0) * np.abs(x) ** self.power)


@dataclass(frozen=True)
class _GeneratorKernel:
    """The log kernel of a function as written, continued by its expansion next to ratio one."""

    function: Function
    near_one: _Expansion

    def __call__(self, u: Array) -> Array:
        """Log kernel at finite log ratios."""
        x = np.expm1(u)
        close = np.abs(x) <= self.near_one.radius
        far = np.where(close, 1.0 + 2.0 * self.near_one.radius, np.exp(u))
        with np.errstate(all="ignore"):  # the function's own arithmetic; what is not a number is caught by its checks
            value = np.asarray(self.function(far), dtype=np.float64) - self.near_one.slope * (far - 1.0)
        value = np.where(close, self.near_one(np.where(close, x, 0.0)), np.maximum(value, 0.0))
        with np.errstate(divide="ignore"):  # log 0 = -inf where f is zero
            return np.asarray(np.log(value)) + log_sigmoid(-u)


def _evaluate(function: Function, ratio: Array) -> Array:
    """The function's values, finite and as many as the ratios."""
    with np.errstate(all="ignore"):  # judged by the result
        value = np.asarray(function(ratio), dtype=np.float64)
    if value.shape != ratio.shape:
        raise ParameterError(
            f"function must return one value per ratio, got shape {value.shape} for {ratio.shape}. Use NumPy functions."
        )
    if not np.isfinite(value).all():
        bad = ~np.isfinite(value)
        raise ParameterError(
            f"function must be finite at every ratio in (0, inf), got {value[bad][0]} at ratio {ratio[bad][0]:.6g}."
        )
    return value


def _check_convex(sample: Array) -> None:
    """Raise unless the slopes between neighbours of the sample do not fall by more than rounding."""
    width = np.diff(SAMPLE)
    slope = np.diff(sample) / width
    error = SAMPLE_ERROR * (np.abs(sample[1:]) + np.abs(sample[:-1])) / width
    fall = slope[:-1] - slope[1:] - error[:-1] - error[1:]
    if (fall > 0).any():
        k = int(np.argmax(fall > 0)) + 1
        raise ParameterError(
            f"function must be convex in the ratio, got slopes that fall from {slope[k - 1]:.6g} to {slope[k]:.6g} "
            f"at ratio {SAMPLE[k]:.6g}."
        )


def _expansion(function: Function) -> _Expansion:
    """The expansion at the widest radius at which it also predicts the function between its nodes."""
    for radius in RADII:
        x = radius * NODES
        left, right = _evaluate(function, 1.0 - x) / x, _evaluate(function, 1.0 + x) / x
        slopes = -float(LIMIT @ left), float(LIMIT @ right)
        scale = float(np.abs(np.concatenate([left, right])).max())
        power = 1 if abs(slopes[1] - slopes[0]) > 1e-7 * scale else 2
        # without a corner the symmetric quotient is even in x, and its extrapolation in x² twice as exact
        slope = 0.5 * (slopes[0] + slopes[1]) if power == 1 else float(EVEN_LIMIT @ (right - left)) / 2.0
        sides = [(quotient - sign * slope) / x ** (power - 1) for sign, quotient in ((-1.0, left), (1.0, right))]
        poly = [tuple(float(c) for c in np.linalg.solve(np.vander(NODES), side)) for side in sides]
        expansion = _Expansion(radius, slope, power, poly[0], poly[1])
        between = radius * np.array([-1.5, -0.7, 0.7, 1.5])
        direct = _evaluate(function, 1.0 + between) - slope * between
        if (np.abs(expansion(between) - direct) <= 1e-6 * np.abs(direct) + 1e-14 * (1.0 + scale)).all():
            break
    return expansion


def _reach(function: Function) -> float:
    """The largest log ratio, 700 or a fraction of it, at which the function does not overflow."""
    reach = LARGEST_LOG_RATIO
    for _ in range(4):
        with np.errstate(all="ignore"):
            ends = np.asarray(function(np.exp(np.array([reach, -reach]))), dtype=np.float64)
        if np.isfinite(ends).all():
            break
        reach /= 2.0
    return reach


def _value_at_zero(function: Function) -> float:
    """f(0), or its limit where the function is not a number at 0 as written."""
    with np.errstate(all="ignore"):
        value, *near = (float(v) for v in np.asarray(function(np.array([0.0, 1e-300, 1e-200, 1e-100]))))
    if not np.isnan(value):
        return value
    # increments over equal steps of log t that do not shrink belong to a limit of infinity
    growing = near[0] - near[1] > 0.5 * (near[1] - near[2]) > 1e-9
    return inf if growing else near[0]


def _slope_at_infinity(function: Function, reach: float) -> float:
    """lim f(t)/t, inf where the chord slope still grows between exp(reach/2) and exp(reach)."""
    ratio = np.exp(np.array([0.5 * reach, reach]))
    halfway, final = (float(slope) for slope in _evaluate(function, ratio) / ratio)
    return inf if final - halfway > 1e-6 * max(1.0, abs(final)) else final
