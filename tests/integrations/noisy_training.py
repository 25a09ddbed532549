"""A training by noisy SGD that is quick to plan, and what it has recorded, for the tests of its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dprounds import Accountant, Gaussian, PoissonSampled
from dprounds.integrations.noisy_sgd import NoisySGD

RECORDS, RATE, NOISE, EPSILON, DELTA = 200, 0.1, 3.0, 1.0, 1e-4
STEP = PoissonSampled(Gaussian(NOISE), RATE)


def no_gradient(weights: Any, lot: Any, clip_norm: float) -> Any:
    return np.zeros_like(weights)


def training(gradient_sum: Any = no_gradient, size: int = 3, **changes: Any) -> NoisySGD:
    settings = {
        "records": RECORDS,
        "public_records": RECORDS,
        "sampling_rate": RATE,
        "noise_multiplier": NOISE,
        "clip_norm": 1.0,
        "learning_rate": 0.5,
        "epsilon": EPSILON,
        "delta": DELTA,
        "method": "optimal",  # of the methods the quickest to plan by
        **changes,
    }
    return NoisySGD(gradient_sum, np.zeros(size), **settings)


def recorded(accountant: Accountant) -> int:
    return dict(accountant.run.parts).get(STEP, 0)


def moved(accountant: Accountant) -> Accountant:
    return Accountant.from_json(accountant.to_json())


def on_disk(path: Path) -> Accountant:
    with np.load(path) as file:
        return Accountant.from_json(str(file["accountant"]))
