"""The numbers behind the paper's three figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dprounds import _validate
from dprounds.conversions import rdp_from_dp
from dprounds.errors import ParameterError
from dprounds.mechanisms import Gaussian, PoissonSampled
from dprounds.paper.approximations import sampled_approximation
from dprounds.paper.gaussian_rounds import lemma_2, moments_epsilon

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Figure1Curve:
    """One pair of curves of Figure 1: γ over δ at one order and epsilon."""

    order: float
    epsilon: float
    delta: Array
    optimal: Array
    theorem_4: Array

    def to_rows(self) -> list[dict[str, float | str]]:
        """A row for every delta and method, with the rdp that it allows."""
        return [
            {"order": self.order, "epsilon": self.epsilon, "delta": float(delta), "method": method, "rdp": float(rdp)}
            for method, rdps in (("optimal", self.optimal), ("closed-form", self.theorem_4))
            for delta, rdp in zip(self.delta, rdps, strict=True)
        ]


def figure_1(
    pairs: Sequence[tuple[float, float]] = ((2.0, 0.1), (4.0, 0.5), (10.0, 1.0)), *, points: int = 300
) -> tuple[Figure1Curve, ...]:
    """The exact γ and Theorem 4's lower bound over δ, for each pair (order, epsilon).

    The paper does not print its three pairs; these show all that its Figure 1 shows: the bound on the curve from
    order · δ = 1 on, close below it before, and farthest at small orders.

    Examples
    --------
    >>> [bool((curve.theorem_4 <= curve.optimal).all()) for curve in figure_1(points=50)]
    [True, True, True]
    """
    points = _validate.count("points", points, least=1)
    # half a step inside (0, 1), where the curves live
    delta = (np.arange(points) + 0.5) / points
    return tuple(
        Figure1Curve(
            order=order,
            epsilon=epsilon,
            delta=delta,
            optimal=np.asarray(rdp_from_dp(epsilon, order=order, delta=delta)),
            theorem_4=np.asarray(rdp_from_dp(epsilon, order=order, delta=delta, method="closed-form")),
        )
        for order, epsilon in pairs
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundsCurves:
    """Epsilon over rounds by several methods: the data of Figures 2 and 3."""

    rounds: Array
    epsilon: dict[str, Array]
    delta: float
    noise_multiplier: float
    sampling_rate: float | None = None

    def without_exact(self) -> RoundsCurves:
        """The curves that the paper draws."""
        return replace(self, epsilon={name: values for name, values in self.epsilon.items() if name != "exact"})

    def to_rows(self) -> list[dict[str, float | int | str]]:
        """A row for every number of rounds and method; with sampling, the epochs too."""
        setting: dict[str, float] = {"noise_multiplier": self.noise_multiplier, "delta": self.delta}
        if self.sampling_rate is not None:
            setting["sampling_rate"] = self.sampling_rate
        return [
            {
                **setting,
                "rounds": int(rounds),
                **({} if self.sampling_rate is None else {"epochs": float(rounds * self.sampling_rate)}),
                "method": method,
                "epsilon": float(epsilon),
            }
            for method, epsilons in self.epsilon.items()
            for rounds, epsilon in zip(self.rounds, epsilons, strict=True)
        ]


def figure_2(
    *,
    noise_multiplier: float = 20.0,
    delta: float = 1e-5,
    last: int = 1000,
    points: int = 100,
    exact: bool = False,
    progress: Callable[[], None] | None = None,
) -> RoundsCurves:
    """ε over T for T-fold Gaussian composition: the moments accountant, Lemma 2, and the optimum it bounds.

    With `exact` also the truth, which the paper lacks. `progress` is called after each of the `points`.
    """
    last = _validate.count("last", last, least=1)
    points = _validate.count("points", points, least=1)
    rounds = np.unique(np.linspace(1, last, points).round())
    step = Gaussian(noise_multiplier)
    rho = 0.5 / noise_multiplier**2
    methods: dict[str, Callable[[float], float]] = {
        "moments accountant": lambda n: moments_epsilon(rho=rho, rounds=n, delta=delta),
        "Lemma 2": lambda n: lemma_2(rho=rho, rounds=n, delta=delta),
        "optimal": lambda n: (step * int(n)).epsilon(delta=delta, method="optimal"),
    }
    if exact:
        methods["exact"] = lambda n: (step * int(n)).epsilon(delta=delta, method="exact")
    return RoundsCurves(
        rounds=rounds,
        epsilon=_at_every(rounds, methods, progress),
        delta=delta,
        noise_multiplier=noise_multiplier,
    )


def figure_3(
    *,
    noise_multiplier: float = 4.0,
    sampling_rate: float = 0.001,
    delta: float = 1e-5,
    epochs: float = 500.0,
    points: int = 60,
    exact: bool = False,
    progress: Callable[[], None] | None = None,
) -> RoundsCurves:
    """ε over rounds for noisy SGD: as the paper draws it, by the approximation, and by the true moment function.

    An epoch is 1/q rounds. With `exact` also the truth, which the paper lacks. `progress` is called after each of the
    `points`.
    """
    approximation = sampled_approximation(sampling_rate=sampling_rate, noise_multiplier=noise_multiplier)
    if not approximation.rate_is_small:
        raise ParameterError(
            f"sampling_rate must be below 1/(16 noise_multiplier) = {1.0 / (16.0 * noise_multiplier):.6g} for the "
            f"approximation behind Figure 3, got {sampling_rate:g}."
        )
    points = _validate.count("points", points, least=1)
    rounds = np.linspace(0.0, epochs / sampling_rate, points + 1)[1:].round()
    step = PoissonSampled(Gaussian(noise_multiplier), sampling_rate)
    rho = approximation.rho
    methods: dict[str, Callable[[float], float]] = {
        "moments accountant, approximated": lambda n: moments_epsilon(rho=rho, rounds=n, delta=delta),
        "Lemma 2, approximated": lambda n: lemma_2(rho=rho, rounds=n, delta=delta),
        "optimal, true moment function": lambda n: (step * int(n)).epsilon(delta=delta, method="optimal"),
    }
    if exact:
        methods["exact"] = lambda n: (step * int(n)).epsilon(delta=delta, method="exact")
    return RoundsCurves(
        rounds=rounds,
        epsilon=_at_every(rounds, methods, progress),
        delta=delta,
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
    )


def _at_every(
    rounds: Array, methods: dict[str, Callable[[float], float]], progress: Callable[[], None] | None
) -> dict[str, Array]:
    """What each method says at each number of rounds, point by point, so that progress is even."""
    epsilon = {name: np.empty(rounds.size) for name in methods}
    for i, n in enumerate(rounds.tolist()):
        for name, method in methods.items():
            epsilon[name][i] = method(n)
        if progress is not None:
            progress()
    return epsilon
