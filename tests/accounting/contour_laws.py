"""Runs, as the contour integral takes them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.contour import LossLaw
from dprounds.accounting.decay import gaussian_ceiling, sampled_gaussian_ceiling
from dprounds.mechanisms import Gaussian, PoissonSampled
from dprounds.mechanisms.base import Mechanism
from dprounds.mechanisms.composition import Run
from dprounds.numerics.complex_plane import Numbers

Array = NDArray[np.float64]


def part_ceiling(part: Mechanism, direction: str, t: float, s: Array) -> Array:
    flat = np.full_like(s, part.log_moment(t, direction) * (1 + 1e-13))
    if isinstance(part, Gaussian):
        return gaussian_ceiling(part.noise_multiplier, t, s)
    if isinstance(part, PoissonSampled) and isinstance(part.mechanism, Gaussian) and 0 < part.sampling_rate < 1:
        sigma = part.mechanism.noise_multiplier
        return np.minimum(flat, sampled_gaussian_ceiling(sigma, part.sampling_rate, direction, t, s))
    return flat


def law(run: Run, direction: str = "remove", *, most_nodes: int = 2**14) -> LossLaw:
    def log_moment(z: Numbers) -> Numbers:
        return np.asarray(run.log_moment(z, direction))

    def ceiling(t: float, s: Array) -> Array:
        total = np.zeros_like(s)
        for part, rounds in run.parts:
            total += rounds * part_ceiling(part, direction if direction in part.directions else "remove", t, s)
        return total

    others = [rounds for part, rounds in run.parts if not isinstance(part, Gaussian)]
    return LossLaw(
        log_moment=log_moment,
        ceiling=ceiling,
        infinite_mass=run.infinite_mass,
        max_loss=run.max_loss(direction),
        fewest_rounds=float(min(others, default=0)) or math.inf,
        most_nodes=most_nodes,
    )


def laws(run: Run, *, most_nodes: int = 2**14) -> list[LossLaw]:
    return [law(run, direction, most_nodes=most_nodes) for direction in run.directions]
