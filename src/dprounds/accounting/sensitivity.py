r"""How epsilon at a delta changes with the parameters of a run, by derivatives on the nodes of one line.

With :math:`\delta(\varepsilon, \theta)` the sum along a line, and :math:`\delta` held fixed,

.. math:: \frac{d\varepsilon}{d\theta} = -\frac{\partial_\theta\delta}{\partial_\varepsilon\delta}, \qquad
          \partial_\theta\delta = \frac h\pi\sum_n \mathrm{Re}\,\partial_\theta K(z_n)\,
          \frac{e^{K(z_n) - \varepsilon z_n}}{z_n(1+z_n)} .

Nothing here is proven: no guarantee rests on a derivative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dprounds.accounting.law import Composition
from dprounds.accounting.sums import within_doubles
from dprounds.accounting.ways import ByLine
from dprounds.errors import NumericalError

__all__ = ["EpsilonSlopes", "epsilon_slopes"]

# Two directions whose deltas differ by less than this part of them cost the same, and either may decide.
SAME = 1e-9


@dataclass(frozen=True, kw_only=True)
class EpsilonSlopes:
    """The derivatives of epsilon: by each parameter of the mechanism, by the number of rounds, and by delta."""

    parameters: Mapping[str, float]
    rounds: float
    delta: float


def epsilon_slopes(laws: Mapping[str, Composition], *, epsilon: float) -> list[EpsilonSlopes]:
    """The derivatives at the delta of `epsilon` in the direction that decides it, or in both where they cost the same.

    Raises `NumericalError` where no line of the law itself serves, or its derivatives are not known.
    """
    found: list[tuple[float, EpsilonSlopes]] = []
    for law in laws.values():
        if len(law.parts) != 1 or law.parts[0][0].slopes is None or law.infinite_mass:
            raise NumericalError("The derivatives of this run are not known.")
        if epsilon < law.max_loss:  # else this direction has no delta at all
            found.append(_of(law, epsilon))
    if not found:
        raise NumericalError("No loss of this run is above epsilon.")
    largest = max(delta for delta, _ in found)
    return [slopes for delta, slopes in found if delta >= (1.0 - SAME) * largest]


def _of(law: Composition, epsilon: float) -> tuple[float, EpsilonSlopes]:
    """Delta in one direction, and the derivatives of epsilon."""
    ((part, rounds),) = law.parts
    with within_doubles():
        way = ByLine(law, smoothed=False)
        way.sums(epsilon)
        line = way.line
        if line is None or part.slopes is None:
            raise NumericalError("The derivatives of this run are not known.")
        value, by_epsilon = line.value_and_slope(epsilon)
        if not value > 0 > by_epsilon:
            raise NumericalError("Delta is too small here for its derivatives.")
        once = line.values / rounds
        with np.errstate(divide="ignore", invalid="ignore"):  # where M vanishes, which the line leaves out
            slopes = part.slopes(line.nodes, once)
        parameters = {name: -line.slope_along(epsilon, rounds * slope) / by_epsilon for name, slope in slopes.items()}
        return value, EpsilonSlopes(
            parameters=parameters, rounds=-line.slope_along(epsilon, once) / by_epsilon, delta=1.0 / by_epsilon
        )
