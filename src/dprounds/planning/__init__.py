"""What may still be spent: rounds, noise and sampling rate under a budget.

>>> from dprounds import Gaussian, PoissonSampled, max_rounds, min_noise_multiplier
>>> max_rounds(Gaussian(20.0), epsilon=6.0, delta=1e-5, method="moments")
501
>>> max_rounds(Gaussian(20.0), epsilon=6.0, delta=1e-5, method="optimal")
603
>>> round(min_noise_multiplier(lambda s: Gaussian(s) * 603, epsilon=6.0, delta=1e-5, method="optimal"), 2)
19.99

Every answer has been checked: the parameter that is returned was put back into the run, and the run met the budget.
"""

from __future__ import annotations

from dprounds.planning.best import BestPlan, best_plan
from dprounds.planning.frontier_rows import Frontier, FrontierRow, frontier
from dprounds.planning.parameters import (
    max_sampling_rate,
    min_noise_multiplier,
    plan_batch_size,
    plan_noise_multiplier,
    plan_sampling_rate,
)
from dprounds.planning.plan import Plan, checked_release
from dprounds.planning.rounds import max_rounds, plan_rounds
from dprounds.planning.sensitivity import Change, Sensitivities

__all__ = [
    "BestPlan",
    "Change",
    "Frontier",
    "FrontierRow",
    "Plan",
    "Sensitivities",
    "best_plan",
    "checked_release",
    "frontier",
    "max_rounds",
    "max_sampling_rate",
    "min_noise_multiplier",
    "plan_batch_size",
    "plan_noise_multiplier",
    "plan_rounds",
    "plan_sampling_rate",
]
