"""When a largest loss, a mass at infinity and values of K cannot all be true."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import show
from dprounds.errors import ParameterError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["refuse_contradictions"]

Array = NDArray[np.float64]

# A moment function and a largest loss contradict each other if they differ by more than this part of them, a thousand
# times and more what rounding may do, or by more than what underflows.
CONTRADICTION = 1e-9
LEAST_CONTRADICTION = 1e-290


def refuse_contradictions(of: object, max_loss: float, infinite_mass: float, t: Array, values: Array) -> None:
    """Raise `ParameterError` where a largest loss, a mass m at infinity and values K(t) cannot all be true.

    From a largest loss that is too small would follow an epsilon that is too small. It bounds K(t) by t times itself;
    and by Jensen's inequality K(t) >= (t + 1) log(1 - m).
    """
    wrong = None
    if not 0 <= infinite_mass <= 1:
        wrong = f"the mass at infinity must be in [0, 1], got {infinite_mass}."
    elif not max_loss >= 0:
        wrong = f"the largest loss must be in [0, inf], got {max_loss}."
    else:
        # next to one, the rounding of the mass is most of what is left of it
        least = (t + 1.0) * (math.log1p(-infinite_mass) if infinite_mass < 1 - 1e-6 else -math.inf)
        rounding = 64.0 * UNIT_ROUNDOFF * (t + 1.0) if infinite_mass else 0.0  # of the mass that is left
        below = values < least * (1.0 + CONTRADICTION) - rounding - LEAST_CONTRADICTION
        if below.any():
            i = int(np.argmax(below))
            wrong = f"the moment function K({t[i]:g}) must not be below {least[i] + 0.0:g}, got {values[i]:g}."
        elif max_loss < math.inf:
            above_it = (values > t * max_loss * (1.0 + CONTRADICTION) + LEAST_CONTRADICTION) & (values < math.inf)
            if above_it.any():
                i = int(np.argmax(above_it))
                shown = f"K(t)/t = {values[i] / t[i]:g} at t = {t[i]:g}"
                wrong = f"the largest loss must not be below {shown}, got {max_loss:g}."
    if wrong is not None:
        raise ParameterError(f"{show(of)} contradicts itself: {wrong}")
