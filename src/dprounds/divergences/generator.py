"""A user's convex function as an f-divergence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import Interval, real, real_array, show
from dprounds.divergences.family import Divergence
from dprounds.divergences.kernels import log_sigmoid
from dprounds.errors import ParameterError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["f_divergence"]

Array = NDArray[np.float64]
Function = Callable[[Array], ArrayLike]

POSITIVE = Interval.parse("(0, inf)")
EXTENDED_REAL = Interval.parse("(-inf, inf]")

# Ratios from 2e-9 to 5e8, four per factor of e. The function is checked there before it is used.
SAMPLE_LOGS = np.linspace(-20.0, 20.0, 161)
SAMPLE_RATIOS = np.exp(SAMPLE_LOGS)
# A function written with logarithms cancels a few digits at large ratios; seven digits still show a wrong bend.
SAMPLE_ERROR = 1e-9
# Doubles end at exp(709.8).
LARGEST_LOG_RATIO = 700.0

# The function's rounding is assumed, not checked. A value at ratio t is within
#     FUNCTION_ROUNDING (|f(t)| + M (1 + t)(1 + |log t|))
# of the exact one. M is the largest |f| at ratios between 1/e and e (or the next power of e at which f is not zero). A
# formula of a dozen operations that cancels terms of the size of t log t, as the Jensen-Shannon
# divergence does, stays below half of that.
FUNCTION_ROUNDING = 32 * UNIT_ROUNDOFF

# Next to ratio one a function as written loses its digits (f is about x², its rounding error 1e-16). So there it is
# continued by the polynomial through six nodes per side, at the widest radius at which the polynomial agrees with the
# function at all CHECK_RADII (multiples of the radius). At the widest radius a smooth function has an error near 1e-10.
# A corner close to one needs a smaller radius.
EXPANSION_NODES = np.arange(1.0, 7.0)
EXPANSION_RADII = (1e-2, 1e-3, 1e-4)
CHECK_RADII = np.concatenate([[1.5], 2.0 ** -np.arange(0.5, 20.0, 0.5)])
EXPANSION_ERROR = 1e-9
# Lagrange's weights for the value at x = 0 of a function of x, and of a function of x².
LIMIT_WEIGHTS = np.array([np.prod([j / (j - k) for j in EXPANSION_NODES if j != k]) for k in EXPANSION_NODES])
EVEN_LIMIT_WEIGHTS = np.array(
    [np.prod([j * j / (j * j - k * k) for j in EXPANSION_NODES if j != k]) for k in EXPANSION_NODES]
)
# Distances from ratio one at which a slope there is compared with the function, where no polynomial agrees with it.
SLOPE_DISTANCES = 2.0 ** -np.arange(2.0, 50.0)

# Relative accuracy of a limit that is read off the function.
LIMIT_ERROR = 1e-6

# The exceptions that a user's function may raise on an array that it was not written for.
FUNCTION_EXCEPTIONS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


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
        Takes an array of ratios in (0, inf), returns f of each. Convex, finite, zero at one. Write ``(t - 1)**2``, not
        ``t**2 - 2*t + 1``, which cancels next to ratio one.
    at_zero
        :math:`f(0)`, in (-inf, inf]; read off `function` unless given. What contradicts the function is refused.
    slope_at_infinity
        :math:`\lim f(t)/t`, in (-inf, inf]; read off `function` at its largest finite ratio unless given, and taken
        as inf where the slope still grows there. What contradicts the function is refused.
    kinks
        Ratios in (0, inf) at which f has a corner, as a hint: the search of a joint range then begins there. Bounds
        hold without it.
    name
        How it prints; the function's own name unless given.

    Guarantee
    ---------
    Raises, or returns a divergence of a function that looked convex at 161 ratios between exp(-20) and exp(20).
    Divergences are within a relative 1e-9 and an absolute 1e-14 M, bounds of joint ranges are proven, provided that
    each value of `function` is within :math:`32\,u\,(|f(t)| + M (1 + t)(1 + |\log t|))` of the exact one. There u is
    2**-53, and M the largest :math:`|f|` at ratios between 1/e and e. A formula of a dozen operations keeps to that.

    Examples
    --------
    >>> import numpy as np
    >>> triangular = f_divergence(lambda t: (t - 1) ** 2 / (t + 1), name="triangular")
    >>> round(triangular([0.5, 0.5], [0.25, 0.75]), 6)
    0.133333
    """
    if not callable(function):
        raise ParameterError(f"function must be a callable of the likelihood ratio, got {show(function)}.")
    title = name if name is not None else getattr(function, "__name__", show(function))
    sample = _evaluate(function, SAMPLE_RATIOS)
    _check_convex(sample)
    at_one = float(_evaluate(function, np.array([1.0]))[0])
    sizes = [float(np.abs(sample[np.abs(SAMPLE_LOGS) <= spread]).max()) for spread in range(1, 21)]
    size = next((largest for largest in sizes if largest > 0.0), 0.0)
    if not abs(at_one) <= 1e-12 * (1.0 + size):
        raise ParameterError(f"function must be zero at ratio 1, got {at_one:.17g}. Subtract that constant.")
    near_one = _expansion(function, size)
    slope_at_one = _slope_at_one(function, size) if near_one is None else near_one.slope
    rest = np.abs(sample - slope_at_one * (SAMPLE_RATIOS - 1.0))
    if not (rest > SAMPLE_ERROR * (np.abs(sample) + np.abs(slope_at_one) * np.abs(SAMPLE_RATIOS - 1.0))).any():
        raise ParameterError("function must bend somewhere, got a multiple of t - 1, whose divergence is zero.")
    reach = _largest_log_ratio(function)
    zero, zero_error = _value_at_zero(function, at_zero)
    slope, slope_error = _slope_at_infinity(function, reach, slope_at_infinity)
    return Divergence(
        name=title,
        log_kernel=GeneratorKernel(function, slope_at_one, size, near_one, (zero_error, slope_error)),
        # both are non-negative for a convex f, up to rounding
        at_zero=max(zero + slope_at_one, 0.0),
        slope_at_infinity=max(slope - slope_at_one, 0.0),
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
class GeneratorKernel:
    """The log kernel of a function as written, continued by its expansion next to ratio one if it has one."""

    function: Function
    slope: float
    size: float
    near_one: _Expansion | None
    limit_errors: tuple[float, float]  # of f(0) and of the slope at infinity, before rounding

    def __call__(self, u: Array) -> Array:
        """Log kernel at finite log ratios."""
        x = np.expm1(u)
        if self.near_one is None:
            value = self._bend(np.where(np.abs(x) < 0.5, 1.0 + x, np.exp(u)))
        else:
            close = np.abs(x) <= self.near_one.radius
            value = self._bend(np.where(close, 1.0 + 2.0 * self.near_one.radius, np.exp(u)))
            value = np.where(close, self.near_one(np.where(close, x, 0.0)), value)
        with np.errstate(divide="ignore"):  # log 0 = -inf where f is zero
            return np.asarray(np.log(np.maximum(value, 0.0))) + log_sigmoid(-u)

    def bracket(self, ratio: Array) -> tuple[Array, Array]:
        """Log kernel at ratios that are doubles, from the function itself, and the log of its largest error."""
        bend = self._bend(ratio)
        error = rounding_error(bend + self.slope * (ratio - 1.0), ratio, self.size)
        # the subtraction of the slope rounds as well, and a negative value counts as zero
        error += 4 * UNIT_ROUNDOFF * np.abs(self.slope * (ratio - 1.0)) + np.maximum(-bend, 0.0)
        # the logarithms round too, by half a unit for each unit of theirs
        error += 4 * UNIT_ROUNDOFF * np.abs(bend) * (2.0 + np.log1p(ratio))
        if not np.isfinite(bend).all():
            worst = ratio[~np.isfinite(bend)][0]
            raise ParameterError(f"function must be finite at every ratio in (0, inf), got no number at {worst:.6g}.")
        with np.errstate(divide="ignore"):  # log 0 = -inf
            return np.log(np.maximum(bend, 0.0)) - np.log1p(ratio), np.log(error) - np.log1p(ratio)

    def _bend(self, ratio: Array) -> Array:
        """f - slope (t - 1), which is not negative up to rounding."""
        return _call(self.function, ratio) - self.slope * (ratio - 1.0)


def rounding_error(value: Array, ratio: Array, size: float) -> Array:
    """The largest error that a value of the function is assumed to have; see FUNCTION_ROUNDING."""
    with np.errstate(divide="ignore", invalid="ignore"):  # at ratio zero the logarithm has no part
        spread = np.where(ratio > 0, np.abs(np.log(ratio)), 0.0)
    return np.asarray(FUNCTION_ROUNDING * np.abs(value) + (FUNCTION_ROUNDING * size) * (1.0 + ratio) * (1.0 + spread))


def _call(function: Function, ratio: Array) -> Array:
    """The function's values as doubles, as many as the ratios."""
    try:
        with np.errstate(all="ignore"):  # judged by the result
            returned = np.asarray(function(ratio))
    except FUNCTION_EXCEPTIONS as error:
        raise ParameterError(
            f"function must take an array of ratios, got {type(error).__name__}: {show(str(error))}. "
            "Use NumPy functions."
        ) from None
    if returned.dtype.kind not in "iuf":
        raise ParameterError(f"function must return real numbers, got {show(returned)}.")
    if returned.shape != ratio.shape:
        raise ParameterError(
            f"function must return one value per ratio, got shape {returned.shape} for {ratio.shape}. "
            "Use NumPy functions."
        )
    return returned.astype(np.float64)


def _evaluate(function: Function, ratio: Array) -> Array:
    """The function's values, all finite."""
    value = _call(function, ratio)
    if not np.isfinite(value).all():
        bad = ~np.isfinite(value)
        raise ParameterError(
            f"function must be finite at every ratio in (0, inf), got {value[bad][0]} at ratio {ratio[bad][0]:.6g}."
        )
    return value


def _check_convex(sample: Array) -> None:
    """Raise unless the slopes between neighbours of the sample do not fall by more than rounding."""
    width = np.diff(SAMPLE_RATIOS)
    slope = np.diff(sample) / width
    error = SAMPLE_ERROR * (np.abs(sample[1:]) + np.abs(sample[:-1])) / width
    fall = slope[:-1] - slope[1:] - error[:-1] - error[1:]
    if (fall > 0).any():
        k = int(np.argmax(fall > 0)) + 1
        raise ParameterError(
            f"function must be convex in the ratio, got slopes that fall from {slope[k - 1]:.6g} to {slope[k]:.6g} "
            f"at ratio {SAMPLE_RATIOS[k]:.6g}."
        )


def _expansion(function: Function, size: float) -> _Expansion | None:
    """The expansion at the widest radius at which it agrees with the function; None where there is none."""
    for radius in EXPANSION_RADII:
        x = radius * EXPANSION_NODES
        left, right = _evaluate(function, 1.0 - x) / x, _evaluate(function, 1.0 + x) / x
        slopes = -float(LIMIT_WEIGHTS @ left), float(LIMIT_WEIGHTS @ right)
        scale = float(np.abs(np.concatenate([left, right])).max())
        power = 1 if abs(slopes[1] - slopes[0]) > 1e-7 * scale else 2
        # without a corner the symmetric quotient is even in x, and its extrapolation in x² twice as exact
        slope = 0.5 * (slopes[0] + slopes[1]) if power == 1 else float(EVEN_LIMIT_WEIGHTS @ (right - left)) / 2.0
        sides = [(quotient - sign * slope) / x ** (power - 1) for sign, quotient in ((-1.0, left), (1.0, right))]
        poly = [tuple(float(c) for c in np.linalg.solve(np.vander(EXPANSION_NODES), side)) for side in sides]
        expansion = _Expansion(radius, slope, power, poly[0], poly[1])
        ratio = 1.0 + radius * np.concatenate([-CHECK_RADII, CHECK_RADII])
        written = _evaluate(function, ratio)
        direct = written - slope * (ratio - 1.0)
        error = rounding_error(written, ratio, size) + EXPANSION_ERROR * np.abs(direct)
        if (np.abs(expansion(ratio - 1.0) - direct) <= error).all():
            return expansion
    return None


def _slope_at_one(function: Function, size: float) -> float:
    """A slope at ratio one that keeps f - slope (t - 1) above minus its rounding error at both sides of one.

    Convexity says that such slopes exist: the chords to the left of one are less steep than those to the right.
    """
    sides = []
    for sign in (-1.0, 1.0):
        ratio = 1.0 + sign * SLOPE_DISTANCES
        value = _evaluate(function, ratio)
        sides.append((value + rounding_error(value, ratio, size)) / SLOPE_DISTANCES)
    least, greatest = -float(sides[0].min()), float(sides[1].min())
    if not least <= greatest:
        raise ParameterError(
            f"function must be convex in the ratio, got slopes that fall from {least:.6g} to {greatest:.6g} at ratio 1."
        )
    return 0.0 if least <= 0.0 <= greatest else 0.5 * (least + greatest)


def _largest_log_ratio(function: Function) -> float:
    """The largest log ratio, 700 or a fraction of it, at which the function does not overflow."""
    reach = LARGEST_LOG_RATIO
    for _ in range(4):
        if np.isfinite(_call(function, np.exp(np.array([reach, -reach])))).all():
            break
        reach /= 2.0
    return reach


def _value_at_zero(function: Function, given: float | None) -> tuple[float, float]:
    """f(0) and its error: as given, or the function's own, or its limit where it is not a number at 0 as written."""
    near = [float(v) for v in _call(function, np.array([1e-300, 1e-200, 1e-100]))]
    try:
        value = float(_call(function, np.array([0.0]))[0])
    except ParameterError:  # the function need not be defined at zero
        value = np.nan
    error = 0.0
    if not value >= near[0] - LIMIT_ERROR * max(1.0, abs(near[0])):
        # increments over equal steps of log t that do not shrink belong to a limit of infinity
        growing = near[0] - near[1] > 0.5 * (near[1] - near[2]) > 1e-9
        value, error = (inf, 0.0) if growing else (near[0], abs(near[0] - near[1]))
    if given is None:
        return value, error
    return _consistent("at_zero", real("at_zero", given, EXTENDED_REAL), near[0], value), 0.0


def _slope_at_infinity(function: Function, reach: float, given: float | None) -> tuple[float, float]:
    """lim f(t)/t and its error: as given or read off; inf where it still grows from exp(reach/2) to exp(reach)."""
    ratio = np.exp(np.array([0.5 * reach, reach]))
    halfway, final = (float(slope) for slope in _evaluate(function, ratio) / ratio)
    growing = final - halfway > LIMIT_ERROR * max(1.0, abs(final))
    value = inf if growing else final
    if given is None:
        return value, 0.0 if growing else abs(final - halfway)
    return _consistent("slope_at_infinity", real("slope_at_infinity", given, EXTENDED_REAL), final, value), 0.0


def _consistent(name: str, given: float, last: float, limit: float) -> float:
    """`given`, if it may be the limit of a convex function that was last seen at `last` and seems to go to `limit`."""
    error = LIMIT_ERROR * max(1.0, abs(last))
    if not last - error <= given <= limit + error:
        allowed = f"about {last:.6g}" if limit - last <= error else f"at least {last:.6g}"
        raise ParameterError(f"{name} must agree with the function, which says {allowed}, got {show(given)}.")
    return given
