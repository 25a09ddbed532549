r"""What a Rényi bound says about (ε, δ), and back: true for every mechanism.

>>> from dprounds import delta_from_rdp, epsilon_from_rdp, rdp_from_dp
>>> round(epsilon_from_rdp(0.5, order=10.0, delta=1e-5), 4)
1.4168
>>> round(delta_from_rdp(0.5, order=10.0, epsilon=2.0) * 1e8, 2)
5.25
>>> round(rdp_from_dp(2.0, order=10.0, delta=1e-5), 4)
1.082

One file per theorem family: `moments` (Theorem 1), `balle`, `closed_form` (Theorem 4 and Lemma 1), `optimal`
(Theorem 3, along the explicit curve of `curve`). Here stand the public functions: they check the arguments and shape
the answer; `inner` chooses the file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.conversions import optimal
from dprounds.conversions.inner import METHODS, converted_delta, converted_epsilon, converted_rdp, in_blocks
from dprounds.conversions.optimal import WorstPair

__all__ = ["METHODS", "WorstPair", "delta_from_rdp", "epsilon_from_rdp", "rdp_from_dp", "worst_pair"]

Array = NDArray[np.float64]


def _shaped(values: Array) -> float | Array:
    """Scalars in, float out; arrays in, arrays out."""
    return values if values.ndim else float(values)


def epsilon_from_rdp(rdp: ArrayLike, *, order: ArrayLike, delta: ArrayLike, method: str = "optimal") -> float | Array:
    r"""Epsilon that a Rényi bound certifies at `delta`.

    .. math:: \varepsilon_\alpha^\delta(\gamma) = \inf\{\varepsilon \ge 0 :
              \text{every } (\alpha, \gamma)\text{-RDP mechanism is } (\varepsilon, \delta)\text{-DP}\}

    Guarantee
    ---------
    Raises, or returns an epsilon at which every (order, rdp)-RDP mechanism is (epsilon, delta)-DP. Errs upward; with
    ``method="optimal"`` by less than 1e-10 of itself wherever epsilon is that well determined by its arguments.

    Parameters
    ----------
    rdp
        Rényi bound in nats, in [0, inf]; `inf` gives `inf`.
    order
        Rényi order, in (1, inf].
    delta
        Failure mass, in [0, 1). At 0 the infinite order gives `rdp` itself and a finite one `inf`.
    method
        ``"moments"``, ``"balle"``, ``"closed-form"`` or ``"optimal"``, from the loosest to the best.

    Theorem
    -------
    [ALCKS20, Theorem 3] for ``"optimal"``, Lemma 1 for ``"closed-form"``, Theorem 1 for ``"moments"``; [BBGHS20,
    Theorem 21] for ``"balle"``; docs/theory/conversions.md.

    Examples
    --------
    >>> round(epsilon_from_rdp(0.5, order=10.0, delta=1e-5, method="moments"), 4)
    1.7792
    >>> round(epsilon_from_rdp(0.5, order=10.0, delta=1e-5), 4)
    1.4168
    >>> epsilon_from_rdp([0.01, 0.5], order=2.0, delta=[0.1, 0.1]).round(4)
    array([0.   , 0.925])
    """
    method = _validate.choice("method", method, METHODS)
    given, at_order, at_delta = _validate.broadcast(
        rdp=_validate.real_array("rdp", rdp, _validate.RDP),
        order=_validate.real_array("order", order, _validate.ORDER),
        delta=_validate.real_array("delta", delta, _validate.FAILURE_MASS),
    )
    return _shaped(converted_epsilon(given, at_order, at_delta, method))


def delta_from_rdp(rdp: ArrayLike, *, order: ArrayLike, epsilon: ArrayLike, method: str = "optimal") -> float | Array:
    r"""Delta that a Rényi bound certifies at `epsilon`.

    .. math:: \delta_\alpha^\varepsilon(\gamma) = \sup\{\mathsf E_{e^\varepsilon}(P\|Q) : D_\alpha(P\|Q) \le \gamma\}

    Guarantee
    ---------
    Raises, or returns a delta at which every (order, rdp)-RDP mechanism is (epsilon, delta)-DP. Errs upward, never to
    zero where the truth is positive but smaller than doubles reach.

    Parameters
    ----------
    rdp
        Rényi bound in nats, in [0, inf]; `inf` gives 1.
    order
        Rényi order, in (1, inf].
    epsilon
        Privacy loss in nats, in [0, inf].
    method
        ``"moments"``, ``"balle"``, ``"closed-form"`` or ``"optimal"``, from the loosest to the best.

    Theorem
    -------
    [ALCKS20, Theorem 3] for ``"optimal"``, Lemma 1 solved for delta for ``"closed-form"``, Theorem 1 for ``"moments"``;
    [BBGHS20, Theorem 21] for ``"balle"``; docs/theory/conversions.md.

    Examples
    --------
    >>> round(delta_from_rdp(0.5, order=10.0, epsilon=2.0) * 1e8, 2)
    5.25
    """
    method = _validate.choice("method", method, METHODS)
    given, at_order, at_epsilon = _validate.broadcast(
        rdp=_validate.real_array("rdp", rdp, _validate.RDP),
        order=_validate.real_array("order", order, _validate.ORDER),
        epsilon=_validate.real_array("epsilon", epsilon, _validate.EPSILON),
    )
    return _shaped(converted_delta(given, at_order, at_epsilon, method))


def rdp_from_dp(epsilon: ArrayLike, *, order: ArrayLike, delta: ArrayLike, method: str = "optimal") -> float | Array:
    r"""Rényi budget of an (ε, δ) target: the greatest rdp that still certifies it.

    .. math:: \gamma_\alpha^\varepsilon(\delta) = \varepsilon + \min_{p \in (\delta, 1)} \frac1{\alpha-1}
              \log\bigl(p^\alpha (p-\delta)^{1-\alpha} + (1-p)^\alpha (e^\varepsilon - p + \delta)^{1-\alpha}\bigr)

    Guarantee
    ---------
    Raises, or returns an rdp such that every (order, rdp)-RDP mechanism is (epsilon, delta)-DP; 0, which only a
    mechanism that releases nothing meets, where the method certifies none. Errs downward.

    Parameters
    ----------
    epsilon
        Privacy loss in nats, in [0, inf]; `inf` gives `inf`.
    order
        Rényi order, in (1, inf].
    delta
        Failure mass, in [0, 1). At 0 the infinite order gives `epsilon` itself and a finite one 0.
    method
        ``"moments"``, ``"balle"``, ``"closed-form"`` or ``"optimal"``, from the loosest to the best.

    Theorem
    -------
    [ALCKS20, Theorem 3] for ``"optimal"``, Theorem 4 for ``"closed-form"``, Theorem 1 for ``"moments"``; [BBGHS20,
    Theorem 21] for ``"balle"``; docs/theory/conversions.md.

    Examples
    --------
    >>> round(rdp_from_dp(2.0, order=10.0, delta=1e-5), 4)
    1.082
    """
    method = _validate.choice("method", method, METHODS)
    target, at_order, at_delta = _validate.broadcast(
        epsilon=_validate.real_array("epsilon", epsilon, _validate.EPSILON),
        order=_validate.real_array("order", order, _validate.ORDER),
        delta=_validate.real_array("delta", delta, _validate.FAILURE_MASS),
    )
    return _shaped(converted_rdp(target, at_order, at_delta, method))


def worst_pair(*, order: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> WorstPair:
    r"""Two-point pair that attains the optimal conversion, so that anyone can check it by hand.

    P gives its first outcome probability p, Q gives it q. Their hockey-stick divergence ``p - exp(epsilon) q`` is
    `delta`, and their Rényi divergence at `order` is ``rdp_from_dp(epsilon, order=order, delta=delta)``: a mechanism
    that releases this one bit meets the bound with equality, so no conversion can promise more.

    Theorem
    -------
    [ALCKS20, Theorem 3]; docs/theory/conversions.md.

    Examples
    --------
    >>> from math import exp, log
    >>> p, q = worst_pair(order=2.0, epsilon=1.0, delta=0.01)
    >>> round(p - exp(1.0) * q, 12)
    0.01
    >>> round(log(p**2 / q + (1 - p) ** 2 / (1 - q)), 6) == round(rdp_from_dp(1.0, order=2.0, delta=0.01), 6)
    True
    """
    at_order, at_epsilon, at_delta = _validate.broadcast(
        order=_validate.real_array("order", order, _validate.ORDER),
        epsilon=_validate.real_array("epsilon", epsilon, _validate.FINITE_EPSILON),
        delta=_validate.real_array("delta", delta, _validate.DELTA),
    )
    p, q = in_blocks(optimal.worst_pair, at_epsilon.ravel(), at_order.ravel(), at_delta.ravel(), outputs=2)
    return WorstPair(_shaped(p.reshape(at_order.shape)), _shaped(q.reshape(at_order.shape)))
