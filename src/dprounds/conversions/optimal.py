r"""The optimal conversion: exactly what one Rényi bound certifies.

The paper's Theorem 3 minimises over two-point pairs. We search that minimum along the explicit curve of `curve.py` and
then state the number that its dual certificate proves, so the search errs to the safe side by itself; what is left is
rounding, which each function bounds and moves past.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions import closed_form
from dprounds.conversions.curve import drop, inverse_phi, optimal_share, phi, tilt
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, below
from dprounds.numerics.search import increasing_root

__all__ = ["WorstPair", "delta", "epsilon", "rdp", "worst_pair"]

Array = NDArray[np.float64]

# The certificate is stationary at the best B, so a relative error of 1e-6 there moves the answer by 1e-12 of itself.
# Where Newton's last step was that small, the error that it left is the square of it.
SEARCH_RTOL = 1e-6
# From this x on, e^x - 1 differs from e^x by less than an ulp.
LARGE_EXPONENT = 40.0
# Below this R its square underflows and H with it; there the closed form, itself at most 1e-140, is the answer.
TINY_R = 1e-140
# Twelve operations of at most two ulps lead to epsilon or rdp, and twice as many, the root of Phi among them, to delta,
# each scaled by the size of what it is added to. In measurements a third of this was enough;
# docs/theory/conversions.md.
ROUNDINGS = 24.0 * UNIT_ROUNDOFF
DELTA_ROUNDINGS = 48.0 * UNIT_ROUNDOFF


def epsilon(rdp: Array, order: Array, delta: Array) -> Array:
    """Least epsilon that `rdp` at `order` certifies at `delta`. Errs upward."""
    answer = closed_form.epsilon(rdp, order, delta)
    # The closed form is exact from a delta = 1 on; it is zero only if the optimum, which is below it, is.
    rest = np.flatnonzero((order * delta < 1.0) & (answer > TINY_R))
    # fmin and fmax keep the closed form where the curve is beyond the range of doubles and comes out as NaN
    answer[rest] = np.fmin(answer[rest], _epsilon_on_curve(rdp[rest], order[rest], delta[rest]))
    return answer


def _epsilon_on_curve(rdp: Array, order: Array, delta: Array) -> Array:
    t = order - 1.0
    exponent = t * rdp
    growth = np.expm1(np.minimum(exponent, LARGE_EXPONENT))
    ad = order * delta

    def touch(B: Array, rdp: Array, t: Array, exponent: Array, growth: Array, ad: Array) -> Array:
        """A, where the certificate touches: e^{tA} = e^{-tB} + (e^{t rdp} - 1 + H(B) e^{-tB}) / (a delta)."""
        at = tilt(B, t)
        ratio = (growth + at.h) / ad
        near = np.log1p(ratio - at.drop_t) / t
        if exponent.max(initial=0.0) < LARGE_EXPONENT and ratio.max(initial=0.0) < np.inf:
            return near
        far = rdp + (np.log1p(np.exp(-exponent) * (ad * (1.0 - at.drop_t) + at.h - 1.0)) - np.log(ad)) / t
        huge = (np.log(growth + at.h) - np.log(ad)) / t  # where the ratio overflows, e^{-tB} is negligible
        return np.where(exponent < LARGE_EXPONENT, np.where(ratio < np.inf, near, huge), far)

    def function(
        B: Array, rdp: Array, t: Array, exponent: Array, growth: Array, ad: Array, delta: Array
    ) -> tuple[Array, Array]:
        R = touch(B, rdp, t, exponent, growth, ad) + B
        share, share_slope = optimal_share(t, delta, tilt(R, t))
        slope_R = 1.0 + np.exp(-t * R) * (drop(B) / delta - 1.0)
        ratio = drop(B) / share
        return ratio - 1.0, ratio * (1.0 / np.expm1(B) - share_slope * slope_R)

    start = touch(np.zeros_like(rdp), rdp, t, exponent, growth, ad)
    share, _ = optimal_share(t, delta, tilt(start, t))
    guess = -np.log1p(-np.minimum(share, 0.9))
    parameters = (rdp, t, exponent, growth, ad)
    B = increasing_root(function, 1e-3 * guess, _most_b(t), guess, *parameters, delta, rtol=SEARCH_RTOL)
    A = touch(B, *parameters)
    fall, _ = phi(A + B, t, tilt(A + B, t))
    return np.maximum(above(A - fall, ROUNDINGS * (A + B)), 0.0)


def _most_b(t: Array) -> Array:
    """More than any optimal B: it exceeds the logarithms of doubles only as delta/(1 - delta) < 1/t does."""
    return 700.0 + 4.0 / t


def rdp(epsilon: Array, order: Array, delta: Array) -> Array:
    """Greatest rdp at `order` that certifies (`epsilon`, `delta`). Errs downward."""
    answer = closed_form.rdp(epsilon, order, delta)
    rest = np.flatnonzero((order * delta < 1.0) & (epsilon + delta > TINY_R))
    answer[rest] = np.fmax(answer[rest], _rdp_on_curve(epsilon[rest], order[rest], delta[rest]))
    return answer


def _curve_point(epsilon: Array, order: Array, delta: Array) -> tuple[Array, Array]:
    """R and B of the extremal pair for (`epsilon`, `delta`): B the best, R = Phi^-1(epsilon + B) to the last digit."""
    t = order - 1.0

    def function(R: Array, epsilon: Array, t: Array, delta: Array) -> tuple[Array, Array]:
        at = tilt(R, t)
        fall, slope = phi(R, t, at)
        share, share_slope = optimal_share(t, delta, at)
        B = -np.log1p(-np.minimum(share, 1.0))
        return R - fall - B - epsilon, slope - share * share_slope / (1.0 - share)

    # 1 - e^{-B} lies between 2 delta and a delta, and Phi(R) between R/2 and R
    least = epsilon - np.log1p(-np.minimum(2.0, order) * delta)
    most = epsilon - np.log1p(-np.maximum(2.0, order) * delta)
    upper = 2.001 * np.where(np.maximum(2.0, order) * delta < 1.0, most, epsilon + _most_b(t))
    guess = np.minimum(2.0 * least, least + np.log1p(1.0 / t))
    R = increasing_root(function, 0.999 * least, upper, guess, epsilon, t, delta, rtol=SEARCH_RTOL)
    at = tilt(R, t)
    share, _ = optimal_share(t, delta, at)
    # where 1 - e^{-B} is nearly 1 it no longer determines B, but epsilon does
    B = np.where(share < 0.5, -np.log1p(-np.minimum(share, 0.5)), R - phi(R, t, at)[0] - epsilon)
    for _ in range(2):  # from thirteen digits, Newton needs one step; the second is for safety
        fall, slope = phi(R, t, tilt(R, t))
        R = R - (R - fall - B - epsilon) / slope
    return R, B


def _rdp_on_curve(epsilon: Array, order: Array, delta: Array) -> Array:
    t = order - 1.0
    R, B = _curve_point(epsilon, order, delta)
    # e^{t rdp} = 1 + gain - loss with gain = a δ e^{tA} (1 - e^{-tR}), taken out where it is large
    log_gain = t * (R - B) + np.log(order * delta) + np.log(drop(t * R))
    gain, loss = np.exp(np.minimum(log_gain, LARGE_EXPONENT)), tilt(B, t).h
    answer = np.where(log_gain < LARGE_EXPONENT, np.log1p(gain - loss), log_gain) / t
    # R is within a few ulps of Phi^-1(epsilon + B), which moves log_gain by t R times as many
    error = (gain * (1.0 + t * R + np.abs(np.log(order * delta))) + loss) / (1.0 + gain - loss)
    # No pair needs more than the one with p = 1; what exceeds that has overflowed on the way.
    return np.where(answer <= 2.0 * (epsilon - np.log1p(-delta)), below(answer, ROUNDINGS * error / t), np.nan)


def delta(rdp: Array, order: Array, epsilon: Array) -> Array:
    """Least delta that `rdp` at `order` certifies at `epsilon`. Errs upward."""
    answer = closed_form.delta(rdp, order, epsilon)
    # from rdp - epsilon = log(a/(a - 1)) on, a delta >= 1 and the closed form is exact
    rest = np.flatnonzero((order < np.inf) & (rdp - epsilon < np.log1p(1.0 / (order - 1.0))) & (rdp > 0.0))
    answer[rest] = np.fmin(answer[rest], _delta_on_curve(rdp[rest], order[rest], epsilon[rest], answer[rest]))
    return answer


def _delta_on_curve(rdp: Array, order: Array, epsilon: Array, most: Array) -> Array:
    t = order - 1.0
    tg = t * rdp
    gap = t * (rdp - epsilon)

    def function(
        B: Array, epsilon: Array, t: Array, tg: Array, gap: Array, near_R: Array, near_y: Array
    ) -> tuple[Array, Array]:
        y = epsilon + B
        R = inverse_phi(y, t, guess=near_R + (y - near_y), rtol=SEARCH_RTOL)
        at_R, at_B = tilt(R, t), tilt(B, t)
        fall, slope = phi(R, t, at_R)
        shrunk = np.exp(-tg)
        given = drop(tg) + shrunk * at_B.h
        # e^{t rdp} - 1 + H(B) e^{-tB} = (1 - e^{-B}) e^{tA} H(R) e^{-tR} / (1 - e^{-R}), as a ratio
        ratio = np.exp(np.minimum(t * fall - gap, 600.0)) * (at_B.drop / at_R.drop) * (at_R.h / given)
        log_slope = (
            (1.0 - at_B.drop) / at_B.drop
            + t * (1.0 / slope - 1.0)
            + (at_R.h_slope / at_R.h - (1.0 - at_R.drop) / at_R.drop) / slope
            - shrunk * at_B.h_slope / given
        )
        return ratio - 1.0, ratio * log_slope

    # Any B certifies, so a delta beyond the range of doubles may stop at the smallest B that they resolve.
    floor = np.where(epsilon > TINY_R, 1e-300, TINY_R)
    near_y = epsilon + 2.0 * most + floor
    near_R = inverse_phi(near_y, t, rtol=1e-3)
    share, _ = optimal_share(t, most, tilt(near_R, t))
    guess = np.maximum(-np.log1p(-np.minimum(share, 0.9)), floor)
    parameters = (epsilon, t, tg, gap, near_R, near_y)
    B = increasing_root(function, floor, _most_b(t), guess, *parameters, rtol=SEARCH_RTOL)
    R = inverse_phi(epsilon + B, t, guess=near_R + (epsilon + B - near_y), rtol=4.0 * UNIT_ROUNDOFF)
    at = tilt(R, t)
    given = drop(tg) + np.exp(-tg) * tilt(B, t).h
    log_delta = gap - t * phi(R, t, at)[0] + np.log(given) - np.log(order) - np.log(at.drop_t)
    error = DELTA_ROUNDINGS * (1.0 + np.abs(gap) + np.abs(log_delta))
    return np.minimum(above(np.exp(log_delta + error)), 1.0)


class WorstPair(NamedTuple):
    """Two-point distributions (p, 1 - p) and (q, 1 - q) that meet a conversion with equality."""

    p: float | Array
    q: float | Array


def worst_pair(epsilon: Array, order: Array, delta: Array) -> tuple[Array, Array]:
    """p and q of the pair whose hockey-stick divergence is `delta` and whose Rényi divergence is least."""
    tiny = (
        epsilon + delta <= TINY_R
    )  # there R = 2 epsilon + 4 delta and B = 2 delta, and q differs from p by less than ulps
    p = np.where(tiny, delta / np.where(tiny, epsilon + 2.0 * delta, 1.0), 1.0)
    q = np.where(tiny, p, (1.0 - delta) * np.exp(-epsilon))
    rest = np.flatnonzero((order * delta < 1.0) & ~tiny)
    R, B = _curve_point(epsilon[rest], order[rest], delta[rest])
    p[rest] = np.minimum(drop(B) / drop(R), 1.0)
    # from p, so that the hockey-stick divergence is delta whatever the search left
    q[rest] = (p[rest] - delta[rest]) * np.exp(-epsilon[rest])
    return p, q
