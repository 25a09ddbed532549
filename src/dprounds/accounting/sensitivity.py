r"""How epsilon at a delta changes with the parameters of a run, by derivatives on the nodes of one line.

With :math:`\delta(\varepsilon, \theta)` the sum along a line, and :math:`\delta` held fixed,

.. math:: \frac{d\varepsilon}{d\theta} = -\frac{\partial_\theta\delta}{\partial_\varepsilon\delta}, \qquad
          \partial_\theta\delta = \frac h\pi\sum_n \mathrm{Re}\,\partial_\theta K(z_n)\,
          \frac{e^{K(z_n) - \varepsilon z_n}}{z_n(1+z_n)} .

Where :math:`c(s) W(\varepsilon - s) = \delta` is what is proven (`integrated`), the derivative of W has one more factor
:math:`1/z_n`, that of W by its place is :math:`-\delta(\varepsilon - s)`, and s, which is the best one, stays.

The nodes are those of the exact sum; or, where that sum is none of a line of the law itself, as of few rounds, those of
a line that ends where its summands are seen to be small. Nothing here is proven: no guarantee rests on a derivative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dprounds.accounting.crude import crude_delta
from dprounds.accounting.integrated import IntegratedProfile
from dprounds.accounting.law import Composition, Slopes
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways.by_line import ByLine
from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers

__all__ = ["EpsilonSlopes", "epsilon_slopes", "integrated_slopes"]

# Two directions whose deltas differ by less than this part of them cost the same, and either may decide.
SAME = 1e-9
# A mass at infinity of up to this is what a sum leaves out. The derivatives of a larger one are not known.
NEGLIGIBLE = 1e-18
# Nodes at which derivatives are computed at once.
BLOCK = 64


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
    refused: list[tuple[Composition, NumericalError]] = []
    for law in laws.values():
        if len(law.parts) != 1 or law.parts[0][0].slopes is None or law.infinite_mass > NEGLIGIBLE:
            raise NumericalError("The derivatives of this run are not known.")
        if epsilon < law.max_loss:  # else this direction has no delta at all
            try:
                found.append(_of(law, epsilon))
            except NumericalError as trouble:
                refused.append((law, trouble))
    largest = max((delta for delta, _ in found), default=0.0)
    for law, error in refused:
        if not crude_delta(law, epsilon) < largest:  # it may be the one that decides
            raise error
    if not found:
        raise NumericalError("No loss of this run is above epsilon.")
    return [slopes for delta, slopes in found if delta >= (1.0 - SAME) * largest]


def integrated_slopes(profile: IntegratedProfile, *, epsilon: float, delta: float) -> EpsilonSlopes:
    """The derivatives of what an integral proves, if `epsilon` is what it proves at `delta`."""
    laws = profile.different
    if len(laws) != 1 or len(laws[0].parts) != 1:
        raise NumericalError("The derivatives of this run are not known.")
    return _of(laws[0], profile.best_place(epsilon), delta)[1]


def _of(law: Composition, epsilon: float, integral_is: float | None = None) -> tuple[float, EpsilonSlopes]:
    """Delta in one direction, and the derivatives of epsilon; or those of the place at which an integral is a delta."""
    ((part, rounds),) = law.parts
    if part.slopes is None:
        raise NumericalError("The derivatives of this run are not known.")
    with WithinDoubles():
        line = _line(law, epsilon)
        value, by_epsilon = line.value_and_slope(epsilon)
        if not value > 0 > by_epsilon:
            raise NumericalError("Delta is too small here for its derivatives.")
        once = line.values / rounds
        with np.errstate(divide="ignore", invalid="ignore"):  # where M vanishes, which the line leaves out
            slopes = _by_blocks(part.slopes, line.nodes, once)
        # rounds that are no integer take the branch of K that is continuous along the line
        turned = np.unwrap(np.where(np.isfinite(once), once.imag, 0.0))
        by_rounds = np.where(np.isfinite(once), once.real, 0.0) + 1j * turned
        factor, by_delta = np.ones_like(line.nodes), 1.0 / by_epsilon
        if integral_is is not None:
            factor, by_epsilon = 1.0 / line.nodes, -value
            by_delta = line.slope_along(epsilon, factor) / integral_is / by_epsilon
        parameters = {
            name: -line.slope_along(epsilon, rounds * slope * factor) / by_epsilon for name, slope in slopes.items()
        }
        found = EpsilonSlopes(
            parameters=parameters,
            rounds=-line.slope_along(epsilon, by_rounds * factor) / by_epsilon,
            delta=by_delta,
        )
    if not all(map(math.isfinite, [*parameters.values(), found.rounds, found.delta])):
        raise NumericalError("The derivatives of this run are outside what doubles resolve.")
    return value, found


def _line(law: Composition, epsilon: float) -> Line:
    """That of the exact sum at `epsilon`, or one that ends where it is small."""
    start: Saddle | float = 1.0
    for proven in (True, False):
        way = ByLine(law, smoothed=False, start=start, proven=proven)
        try:
            way.sums(epsilon)
        except NumericalError:
            if not proven:
                raise
        if way.line is not None and way.line.lattice is None:
            return way.line
        start = way.start
    raise NumericalError("The derivatives of this run are not known.")


def _by_blocks(slopes: Slopes, z: Numbers, values: Numbers) -> dict[str, Numbers]:
    """The derivatives of K at all nodes, computed at a few at a time."""
    found = [slopes(z[i : i + BLOCK], values[i : i + BLOCK]) for i in range(0, z.size, BLOCK)]
    return {name: np.concatenate([block[name] for block in found]) for name in found[0]}
