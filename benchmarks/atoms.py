"""Runs as short lists of atoms that cost no more than they do; nothing of dprounds is imported.

With r = e^{-L} the profile is the mean of (1 - e^ε r₁⋯r_T)₊ under P, which falls with every r and is convex in it. So
outputs of one round, or of several, may be merged at their mean r, losses may be lowered and mass may be dropped: δ can
only fall. A run is composed by squaring, and the products of all pairs of atoms are merged into few again. Sums are of
positive numbers, and whatever is rounded is then moved past its error to the safe side. So no error is carried along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["Atoms", "Part", "epsilon_below", "one_round"]

Array = NDArray[Any]  # doubles, or extended where many rounds would add up what doubles round
Indices = NDArray[np.intp]

UNIT = np.finfo(np.longdouble).eps
# Units that a few operations, exponentials and logarithms round by, with much room.
ROUNDINGS = 64
# Nodes of a panel's Gauss-Legendre sum, and the length of a panel in deviations. The remainder is 6e-31 h^21 f^(20); up
# to 25 deviations |f^(20)| < 30^20 f, so that this is far below 1e-20 of a panel's mass.
NODES, PANEL, PANEL_ERROR = 10, 0.05, 1e-20
# Deviations around either centre within which outputs are told apart.
REACH = 17.0
# Atoms that a run is merged into. More are sharper and slower.
MOST_ATOMS = 128
# Up to so many rounds doubles lose no more than 1e-5 of a mass by rounding it down.
MOST_ROUNDS_OF_DOUBLES = 10**7
# Atoms with a smaller share than this, of the mass and of the tilted mass, are dropped; so are masses near the end of
# the range of doubles.
NEGLIGIBLE, LEAST_MASS = 1e-17, 1e-290


class Part(NamedTuple):
    """Rounds of one noise: Gaussian, Laplace and discrete Gaussian by their scale, a response by its epsilon."""

    noise: str
    size: float
    rate: float  # 1 if every round sees every record
    rounds: int


class Atoms(NamedTuple):
    """Masses under P, and losses."""

    mass: Array
    loss: Array


class _Outputs(NamedTuple):
    """Sets of outputs in the order of their likelihood ratio, none of which holds ratios above one and below.

    Masses around 0 and around 1, their difference, and by how much each is off at most, relative to itself.
    """

    around_0: Array
    around_1: Array
    excess: Array
    error: Array


@cache
def _legendre() -> tuple[Array, Array]:
    """Nodes in (0, 1) and weights of the Gauss-Legendre sum, to extended precision."""
    nodes, weights = [], []
    with mp.workdps(40):
        for near in np.polynomial.legendre.leggauss(NODES)[0].tolist():
            x = mp.findroot(lambda y: mp.legendre(NODES, y), (near, near + 1e-12))
            slope = NODES * (mp.legendre(NODES - 1, x) - x * mp.legendre(NODES, x)) / (1 - x * x)
            nodes.append(np.longdouble(mp.nstr((1 - x) / 2, 30)))
            weights.append(np.longdouble(mp.nstr(1 / ((1 - x * x) * slope**2), 30)))
    return np.array(nodes), np.array(weights)


def _normal(size: float) -> _Outputs:
    nodes, weights = _legendre()
    distance = 1 / np.longdouble(size)  # of the centres, in deviations
    half, panel = distance / 2, np.longdouble(PANEL)
    most = math.ceil((REACH + float(half)) / PANEL)
    first = np.arange(-most, most)
    offset = panel * (first[:, None] + nodes)  # from the middle of the centres
    scale = panel / np.sqrt(2 * np.longdouble(mp.nstr(mp.pi, 30)))
    around_0 = scale * weights * np.exp(-((offset + half) ** 2) / 2)
    around_1 = scale * weights * np.exp(-((offset - half) ** 2) / 2)
    far = np.abs(panel * first) + 1 + half
    error = UNIT * (ROUNDINGS + 8 * far**2) + PANEL_ERROR
    excess = around_0 * np.expm1(offset * distance)
    return _Outputs(around_0.sum(axis=1), around_1.sum(axis=1), excess.sum(axis=1), error)


def _laplace(size: float) -> _Outputs:
    nodes, weights = _legendre()
    count, scale = 200, np.longdouble(size)  # panels of [0, 1], the middle at the end of one
    log_ratio = (np.arange(-count // 2, count // 2)[:, None] + nodes) * (2 / (count * scale))
    weights = weights / (2 * count * scale) * np.exp(-1 / (2 * scale))
    around_0, around_1 = weights * np.exp(-log_ratio / 2), weights * np.exp(log_ratio / 2)
    excess = (around_0 * np.expm1(log_ratio)).sum(axis=1)
    half, far, gain = np.longdouble(0.5), np.exp(-1 / scale) / 2, -np.expm1(-1 / scale) / 2
    return _Outputs(
        np.concatenate([[half], around_0.sum(axis=1), [far]]),
        np.concatenate([[far], around_1.sum(axis=1), [half]]),
        np.concatenate([[-gain], excess, [gain]]),
        np.full(count + 2, UNIT * (ROUNDINGS + 8 / scale) + PANEL_ERROR),
    )


def _response(size: float) -> _Outputs:
    a = np.longdouble(size)
    truth, lie = 1 / (1 + np.exp(-a)), np.exp(-a) / (1 + np.exp(-a))
    excess = -np.expm1(-a) / (1 + np.exp(-a))
    error = np.full(2, UNIT * (ROUNDINGS + 8 * a))
    return _Outputs(np.array([truth, lie]), np.array([lie, truth]), np.array([-excess, excess]), error)


def _discrete_normal(size: float) -> _Outputs:
    scale = np.longdouble(size)
    most = math.ceil(REACH * size) + 1
    k = np.arange(-most, most + 2).astype(np.longdouble)
    # what is left out of the sum is less than 1e-60 of it
    total = np.exp(-((k / scale) ** 2) / 2).sum()
    around_0, around_1 = np.exp(-((k / scale) ** 2) / 2) / total, np.exp(-(((k - 1) / scale) ** 2) / 2) / total
    excess = around_0 * np.expm1((2 * k - 1) / (2 * scale * scale))
    error = UNIT * (ROUNDINGS + k.size + 8 * (np.abs(k) + 1) ** 2 / scale**2)
    per_set = max(1, round(PANEL * size))  # neighbours under large noise are hardly told apart
    middle = most + 1  # the first k whose ratio is above one
    starts = [np.zeros(1), np.arange(middle % per_set, middle, per_set), np.arange(middle, k.size, per_set)]
    first = np.unique(np.concatenate(starts)).astype(np.intp)
    return _Outputs(
        np.add.reduceat(around_0, first),
        np.add.reduceat(around_1, first),
        np.add.reduceat(excess, first),
        np.maximum.reduceat(error, first),
    )


OUTPUTS: dict[str, Callable[[float], _Outputs]] = {
    "gaussian": _normal,
    "laplace": _laplace,
    "response": _response,
    "discrete-gaussian": _discrete_normal,
}


def one_round(part: Part, direction: str) -> Atoms:
    """Atoms of one round, which costs no less."""
    outputs, rate = OUTPUTS[part.noise](part.size), np.longdouble(part.rate)
    mixed = (1 - rate) * outputs.around_0 + rate * outputs.around_1
    ratio_less_1 = rate * outputs.excess / outputs.around_0
    with np.errstate(invalid="ignore", divide="ignore"):  # of what is not chosen
        loss = np.where(ratio_less_1 > -0.5, np.log1p(ratio_less_1), np.log(mixed / outputs.around_0))
    error = 8 * outputs.error + ROUNDINGS * UNIT
    mass, loss = (mixed, loss) if direction == "remove" else (outputs.around_0, -loss)
    return Atoms(mass * (1 - error), loss - error * np.abs(loss))


class _Run:
    """Parts in one direction, merged where that hardly moves δ near an ε."""

    def __init__(self, parts: Sequence[Part], direction: str, epsilon: float, most: int) -> None:
        self.most = most
        few = max(part.rounds for part in parts) <= MOST_ROUNDS_OF_DOUBLES
        self.kind: type[np.floating[Any]] = np.float64 if few else np.longdouble
        self.unit = np.finfo(self.kind).eps
        self.steps = [(self._cast(one_round(part, direction)), part.rounds) for part in parts]
        logs = [(np.log(mass).astype(float), loss.astype(float), count) for (mass, loss), count in self.steps]

        def log_chernoff(log_t: float) -> float:
            t = math.exp(log_t)
            total = -t * epsilon + t * log_t - (1 + t) * math.log1p(t)
            for log_mass, loss, count in logs:
                exponents = log_mass + t * loss
                top = float(exponents.max())
                total += count * (top + math.log(float(np.exp(exponents - top).sum())))
            return total if math.isfinite(total) else 1e300

        bounds = (-12.0, 12.0 + math.log1p(1 / epsilon))
        best = minimize_scalar(log_chernoff, bounds=bounds, method="bounded", options={"xatol": 1e-2})
        self.tilt, self.log_delta = math.exp(best.x), float(best.fun)

    def composed(self) -> Atoms:
        """The atoms of all rounds; the last product is left as it is."""
        factors = []
        for atoms, count in self.steps[:-1]:
            factors.append(self._power(self._merged(atoms), count))
        atoms, count = self._merged(self.steps[-1][0]), self.steps[-1][1]
        factors += [self._power(atoms, each) for each in {count // 2, count - count // 2} if each]
        if count > 1 and count % 2 == 0:
            factors.append(factors[-1])
        total = factors[0]
        for at, each in enumerate(factors[1:]):
            total = self._product(self._merged(total) if at else total, each)
        return total

    def _power(self, atoms: Atoms, count: int) -> Atoms:
        total = atoms
        for bit in bin(count)[3:]:
            total = self._merged(self._product(total, total))
            if bit == "1":
                total = self._merged(self._product(total, atoms))
        return total

    def _cast(self, atoms: Atoms) -> Atoms:
        kept = atoms.mass > LEAST_MASS
        mass, loss = atoms.mass[kept].astype(self.kind), atoms.loss[kept].astype(self.kind)
        return Atoms(mass * (1 - 2 * self.unit), loss - self.unit * np.abs(loss))

    def _product(self, one: Atoms, other: Atoms) -> Atoms:
        loss = np.add.outer(one.loss, other.loss).ravel()
        mass = np.multiply.outer(one.mass * (1 - 4 * self.unit), other.mass).ravel()
        return Atoms(mass, loss - self.unit * np.abs(loss))

    def _merged(self, atoms: Atoms) -> Atoms:
        """Few atoms for many: the groups may be any, and are small where δ near ε depends on them."""
        mass, loss = atoms
        kept = mass > LEAST_MASS
        mass, loss = mass[kept], loss[kept]
        rough = loss.astype(float)
        exponents = np.log(mass).astype(float) + self.tilt * rough
        tilted = np.exp(exponents - exponents.max())
        kept = (tilted > NEGLIGIBLE) | (mass > NEGLIGIBLE)
        order = np.flatnonzero(kept)[np.argsort(rough[kept])]
        # doubles do not tell all extended numbers apart
        mass, loss = mass[order], np.minimum.accumulate(loss[order][::-1])[::-1]
        if mass.size <= self.most:
            return Atoms(mass, loss)
        # by the cube root of the density, which moves the variance least; of the law, tilted, and half-way tilted
        tilted, plain = tilted[order], mass.astype(float)
        halfway = np.sqrt(tilted * plain)
        weight = sum(each / each.sum() for each in (tilted, plain, halfway))
        measure = np.cumsum(np.cbrt(weight * np.diff(rough[order], append=rough[order[-1]]) ** 2) + 1e-300)
        levels = measure[-1] * np.linspace(0, 1, self.most + 1)[1:-1]
        return self._grouped(mass, loss, np.unique(np.append(0, np.searchsorted(measure, levels))))

    def _grouped(self, mass: Array, loss: Array, first: Indices) -> Atoms:
        """Neighbours, merged at their mean r."""
        counts = np.diff(np.append(first, mass.size))
        least, total = loss[first], np.add.reduceat(mass, first)
        # of r relative to its largest, less one: in (-1, 0]
        mean = np.add.reduceat(mass * np.expm1(np.repeat(least, counts) - loss), first) / total
        gain = -np.log1p(np.minimum(mean, 0))
        error = self.unit * (ROUNDINGS + counts)
        gain -= np.minimum(error * (gain + np.expm1(gain)), gain)  # a mean near -1 is far more sensitive
        moved = least + gain
        return Atoms(total * (1 - error), moved - 4 * self.unit * np.abs(moved))


def epsilon_below(parts: Sequence[Part], delta: float, hint: float, *, most: int = MOST_ATOMS) -> float:
    """An ε that the run costs at least: its δ there is above the one that is given. Sharp near the hint only."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        runs = [_Run(parts, direction, hint, most) for direction in ("remove", "add")]
        mass, loss = max(runs, key=lambda run: run.log_delta).composed()
    # a sum of positive numbers; ε is an exact double
    wanted = delta * (1 + 2.0**-52 * (ROUNDINGS + mass.size))

    def costs(epsilon: float) -> bool:
        beyond = loss > epsilon
        gains = -np.expm1(epsilon - loss[beyond])
        return bool((mass[beyond] * gains).sum() > wanted)

    low, high = (hint, 2 * hint) if costs(hint) else (0.0, hint)
    for _ in range(30):
        middle = low + (high - low) / 2
        low, high = (middle, high) if costs(middle) else (low, middle)
    return low
