r"""What a Rényi bound says about (ε, δ), and back: true for every mechanism.

>>> from dprounds import delta_from_rdp, epsilon_from_rdp, rdp_from_dp
>>> round(epsilon_from_rdp(0.5, order=10.0, delta=1e-5), 4)
1.4168
>>> round(delta_from_rdp(0.5, order=10.0, epsilon=2.0) * 1e8, 2)
5.25
>>> round(rdp_from_dp(2.0, order=10.0, delta=1e-5), 4)
1.082

One file per theorem family: `moments` (Theorem 1), `balle`, `closed_form` (Theorem 4 and Lemma 1), `optimal`
(Theorem 3, along the explicit curve of `curve`). Here stand the public functions: they check the arguments, choose the
file and shape the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.conversions import balle, closed_form, moments, optimal
from dprounds.conversions.optimal import WorstPair
from dprounds.errors import NumericalError

__all__ = ["METHODS", "WorstPair", "delta_from_rdp", "epsilon_from_rdp", "rdp_from_dp", "worst_pair"]

Array = NDArray[np.float64]

_FAMILIES: dict[str, ModuleType] = {
    "moments": moments,
    "balle": balle,
    "closed-form": closed_form,
    "optimal": optimal,
}
METHODS = tuple(_FAMILIES)


# Elements converted at a time: some thirty temporaries of this many doubles stay in a core's second-level cache.
BLOCK = 4096


def _in_blocks(function: Callable[..., Array | tuple[Array, ...]], *arguments: Array, outputs: int = 1) -> list[Array]:
    """`function` over flattened arguments, block by block; raises rather than hand on a NaN."""
    size = arguments[0].size
    if not size:
        return [np.empty(0)] * outputs
    parts = []
    # Every branch of a formula is computed for every element and the right one is chosen afterwards; overflow or 0/0
    # in a branch not chosen is no trouble, and one that was chosen is caught as NaN below.
    with np.errstate(all="ignore"):
        for start in range(0, size, BLOCK):
            result = function(*(argument[start : start + BLOCK] for argument in arguments))
            parts.append(np.atleast_2d(result))
    answer = np.concatenate(parts, axis=1)
    if np.isnan(answer).any():
        raise NumericalError("The conversion lost all precision for these arguments; please report them.")
    return list(answer)


def _shaped(values: Array, shape: tuple[int, ...]) -> float | Array:
    """Scalars in, float out; arrays in, arrays out."""
    return values.reshape(shape) if shape else float(values[0])


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
    family = _FAMILIES[_validate.choice("method", method, METHODS)]
    given, at_order, at_delta = _validate.broadcast(
        rdp=_validate.real_array("rdp", rdp, _validate.RDP),
        order=_validate.real_array("order", order, _validate.ORDER),
        delta=_validate.real_array("delta", delta, _validate.FAILURE_MASS),
    )
    (answer,) = _in_blocks(family.epsilon, _resolved(given, at_order), at_order.ravel(), _positive(at_delta))
    # At delta 0 the infinite order is the pure guarantee itself. A finite one bounds no largest loss, unless its rdp is
    # zero: then the two laws are one, which only the formulas of the paper know.
    knows_zero = family in (closed_form, optimal)
    pure = np.where(at_order < np.inf, np.where((given == 0.0) & knows_zero, 0.0, np.inf), given).ravel()
    answer = np.where(at_delta.ravel() > 0.0, answer, pure)
    return _shaped(np.where(given.ravel() < np.inf, answer, np.inf), given.shape)


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
    family = _FAMILIES[_validate.choice("method", method, METHODS)]
    given, at_order, at_epsilon = _validate.broadcast(
        rdp=_validate.real_array("rdp", rdp, _validate.RDP),
        order=_validate.real_array("order", order, _validate.ORDER),
        epsilon=_validate.real_array("epsilon", epsilon, _validate.EPSILON),
    )
    (answer,) = _in_blocks(family.delta, _resolved(given, at_order), at_order.ravel(), _finite(at_epsilon))
    # a finite Rényi divergence leaves no mass outside the other's support, so at epsilon = inf delta is zero
    answer = np.where(at_epsilon.ravel() < np.inf, answer, 0.0)
    return _shaped(np.where(given.ravel() < np.inf, answer, 1.0), given.shape)


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
    family = _FAMILIES[_validate.choice("method", method, METHODS)]
    target, at_order, at_delta = _validate.broadcast(
        epsilon=_validate.real_array("epsilon", epsilon, _validate.EPSILON),
        order=_validate.real_array("order", order, _validate.ORDER),
        delta=_validate.real_array("delta", delta, _validate.FAILURE_MASS),
    )
    (answer,) = _in_blocks(family.rdp, _finite(target), at_order.ravel(), _positive(at_delta))
    # at delta 0 only the infinite order certifies anything, and what it does is the target itself
    answer = np.where(at_delta.ravel() > 0.0, answer, np.where(at_order < np.inf, 0.0, target).ravel())
    return _shaped(np.where(target.ravel() < np.inf, answer, np.inf), target.shape)


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
    p, q = _in_blocks(optimal.worst_pair, at_epsilon.ravel(), at_order.ravel(), at_delta.ravel(), outputs=2)
    return WorstPair(_shaped(p, at_order.shape), _shaped(q, at_order.shape))


def _resolved(rdp: Array, order: Array) -> Array:
    """`rdp`, flat, raised where (order - 1) rdp would be too small for doubles to keep its digits; zero stays zero."""
    least = 2.3e-308 / np.minimum(order - 1.0, 1.0)  # the least normal double
    return _finite(np.where(rdp > 0.0, np.maximum(rdp, least), 0.0))


def _positive(deltas: Array) -> Array:
    """`deltas`, flat, with a stand-in for 0, as `_finite` has one for `inf`."""
    return np.where(deltas > 0.0, deltas, 0.5).ravel()


def _finite(values: Array) -> Array:
    """`values`, flat, with a stand-in for `inf`: the callers put the limit's answer in its place."""
    return np.where(values < np.inf, values, 1.0).ravel()
