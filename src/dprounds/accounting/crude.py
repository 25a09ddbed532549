"""What one value of K proves of delta: the same bound as that of one Rényi order, at little cost."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.law import LOG_MOMENT_ERROR, Composition
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways.place import saddle_at_epsilon
from dprounds.errors import NumericalError

__all__ = ["about_saddle", "crude_delta", "crude_delta_at", "crude_integrals"]

Array = NDArray[np.float64]

# These tune tightness.
# Where one value of K bounds delta, if no saddle point is found.
SCANNED = (10.0, 100.0, 1e3, 1e4)
# An integral of more than the exponential of this is infinite.
LARGEST_EXPONENT = 700.0


def crude_delta(law: Composition, epsilon: float) -> float:
    """An upper bound of delta from one value of K: infinite mass plus zeta(t) exp(K(t) - t epsilon)."""
    if not epsilon < law.max_loss:
        return law.infinite_mass
    try:
        with WithinDoubles():
            return crude_delta_at(law, about_saddle(law, epsilon, 1.0), epsilon)
    except NumericalError:
        return 1.0


def crude_integrals(law: Composition, t: Array, epsilons: Array) -> Array:
    """Upper bounds of the integrals of delta from these epsilons on, by K at some points: delta falls as exp(-t x)."""
    if law.infinite_mass:
        return np.full_like(epsilons, math.inf)
    with WithinDoubles():
        values = np.asarray(np.real(law.log_moment(t)))
        on_axis = np.array([law.error_on_axis(one) for one in t.tolist()])
        falls = np.multiply.outer(epsilons, t)
        # a thousand times the error that K may have, since this is not to be close
        error = 1000.0 * LOG_MOMENT_ERROR * (np.abs(values) + np.abs(falls) + 1.0) + on_axis
        exponents = log_zeta(t) - np.log(t) + values - falls + error
        exponents = np.where(exponents < LARGEST_EXPONENT, exponents, math.inf)  # also what is not a number
        return np.where(epsilons < law.max_loss, np.exp(exponents.min(axis=1)), 0.0)


def crude_delta_at(law: Composition, saddle: Saddle, epsilon: float) -> float:
    """The same at a given point of the axis."""
    exponent = _log_crude_delta(law, saddle, epsilon)
    return 1.0 if math.isnan(exponent) else law.infinite_mass + math.exp(min(exponent, 0.0))


def _log_crude_delta(law: Composition, saddle: Saddle, epsilon: float) -> float:
    """The logarithm of the bound of the finite losses, which may exceed 0."""
    t, value = saddle.t, saddle.value
    # a thousand times the error that K may have, since this is not to be close
    error = 1000.0 * LOG_MOMENT_ERROR * (abs(value) + t * epsilon + 1.0) + law.error_on_axis(t)
    return float(log_zeta(np.array(t))) + value - t * epsilon + error


def about_saddle(law: Composition, epsilon: float, start: float) -> Saddle:
    """The saddle point, or the best of a few other points if it is not found: K at any of them bounds delta.

    This happens if epsilon exceeds the largest loss of one part while a larger one of another part is rare.
    """
    try:
        return saddle_at_epsilon(law, epsilon, start=start)
    except NumericalError:
        found = []
        for t in SCANNED:
            with suppress(NumericalError):
                found.append(law.expand(t))
        if not found:
            raise
        return min(found, key=lambda one: one.value - one.t * epsilon)
