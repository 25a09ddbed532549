r"""The paper's closed forms: nearly optimal, in a few logarithms.

With t = order - 1 and a = order. From a·δ = 1 on, the optimum itself has a closed form,

.. math:: \varepsilon = (\gamma + \log(1 - \delta))_+ .

Below, Lemma 1 bounds epsilon by the lesser of Balle's bound and

.. math:: \varepsilon = \tfrac1t \log\Bigl(1 + \frac{e^{t\gamma} - 1}{\alpha\delta}\Bigr);

`delta` is that lemma solved for δ, and `rdp` is Theorem 4, which bounds γ directly and is a little sharper. Each
function takes validated arrays of one shape. Theorem: [ALCKS20, Theorem 4 and Lemma 1]; docs/theory/conversions.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions import balle
from dprounds.numerics.cancellation import exp_minus_tangent
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, below

__all__ = ["delta", "epsilon", "rdp"]

Array = NDArray[np.float64]

# At most twelve operations lead to any of these answers, each within an ulp of the largest of its terms.
ROUNDINGS = 24.0 * UNIT_ROUNDOFF
# A logarithm within two ulps and one addition.
TWO_ROUNDINGS = 4.0 * UNIT_ROUNDOFF
# From this x on, x differs from log1p(e^x), and e^x - 1 from e^x, by less than an ulp.
LARGE_EXPONENT = 40.0


def epsilon(rdp: Array, order: Array, delta: Array) -> Array:
    """Epsilon that `rdp` at `order` certifies at `delta`. Errs upward."""
    t = order - 1.0
    ad = order * delta
    exponent = t * rdp
    linear = np.log1p(np.expm1(np.minimum(exponent, LARGE_EXPONENT)) / ad)
    if exponent.max(initial=0.0) >= LARGE_EXPONENT:  # the same with e^x taken out
        far = exponent + np.log1p(np.exp(-exponent) * (ad - 1.0)) - np.log(ad)
        linear = np.where(exponent < LARGE_EXPONENT, linear, far + ROUNDINGS * (exponent + np.abs(np.log(ad))))
    answer = above(linear / t, ROUNDINGS * np.abs(linear) / t)
    if ad.max(initial=0.0) >= 1.0:
        lost = np.log1p(-delta)
        answer = np.where(ad < 1.0, answer, above(rdp + lost, TWO_ROUNDINGS * (rdp - lost)))
    answer = np.maximum(np.minimum(answer, balle.epsilon(rdp, order, delta)), 0.0)
    # at rdp zero nothing was released: no ratio differs from one
    return np.where(rdp > 0.0, answer, 0.0)


def delta(rdp: Array, order: Array, epsilon: Array) -> Array:
    """Delta that `rdp` at `order` certifies at `epsilon`. Errs upward."""
    t = order - 1.0
    by_balle = balle.delta(rdp, order, epsilon)
    # (e^{tγ} - 1) / (a (e^{tε} - 1)), a bound only below 1/a, that is for γ < ε
    gap = t * (rdp - epsilon)
    log_linear = gap + np.log(np.expm1(-t * rdp) / np.expm1(-t * epsilon)) - np.log(order)
    error = ROUNDINGS * (1.0 + np.abs(gap) + np.abs(log_linear))
    linear = np.where(rdp < epsilon, above(np.exp(log_linear + error)), 1.0)
    # 1 - e^{ε - γ}, exact where it is 1/a or more; so is Balle's bound a bound everywhere
    from_one = -np.expm1(epsilon - rdp)
    from_one = np.where(order * from_one >= 1.0, above(from_one, ROUNDINGS * from_one), 1.0)
    answer = np.minimum(np.minimum(by_balle, np.where(epsilon > 0.0, linear, 1.0)), from_one)
    answer = np.where(t < np.inf, answer, np.where(rdp <= epsilon, 0.0, np.minimum(from_one, by_balle)))
    return np.where(rdp > 0.0, answer, 0.0)


def rdp(epsilon: Array, order: Array, delta: Array) -> Array:
    """Greatest rdp at `order` that the paper's Theorem 4 certifies for (`epsilon`, `delta`). Errs downward."""
    lost = np.log1p(-delta)
    from_one = below(epsilon - lost, TWO_ROUNDINGS * (epsilon - lost))
    answer = np.where(order * delta >= 1.0, from_one, _theorem_4_f(epsilon, order, delta))
    return np.maximum(answer, balle.rdp(epsilon, order, delta))


def _theorem_4_f(epsilon: Array, order: Array, delta: Array) -> Array:
    """f of Theorem 4, as log(1 + a δ (e^{tε} - 1) + s)/t with s written without the cancellation of its terms."""
    a, t = order, order - 1.0
    # v = ((1 - δ)/(1 - δ e^-ε))^a = e^{-aL}; s = (1 - a δ e^-ε) v - 1 + a δ
    y = delta * -np.expm1(-epsilon) / (1.0 - delta)
    L = np.log1p(y)
    gain = exp_minus_tangent(-a * L) + a * exp_minus_tangent(L)
    loss = a * delta * (y + np.exp(-epsilon) * np.expm1(-a * L))
    exponent = t * epsilon
    main = a * delta * np.expm1(np.minimum(exponent, LARGE_EXPONENT))
    near = np.log1p(
        np.maximum(below(main + gain - loss, ROUNDINGS * (main + gain + np.abs(loss) + a * delta * y)), 0.0)
    )
    # the same with e^{tε} taken out: ε + log(a δ + e^{-tε} (1 - a δ e^-ε) v)/t
    rest = np.log(a * delta + np.exp(-exponent) * (1.0 - a * delta * np.exp(-epsilon)) * np.exp(-a * L)) / t
    far = epsilon + rest - ROUNDINGS * (epsilon + np.abs(rest))
    return np.where(exponent < LARGE_EXPONENT, below(near, ROUNDINGS * near) / t, far)
