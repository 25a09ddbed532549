"""The paper's figures and claims, recomputed.

*A Better Bound Gives a Hundred Rounds: Enhanced Privacy Guarantees via f-Divergences* [ALCKS20], under its own names: ρ
is 1/(2σ²), T the rounds. Two things here are **not guarantees** and are used by nothing else in the library: the
expansions of the variance (Theorem 5), whose remainder is not zero, and the approximation of sampled SGD behind
Figure 3, which holds under conditions and is unsound without them. docs/theory/paper.md says by how much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dprounds import _validate
from dprounds.conversions import rdp_from_dp
from dprounds.conversions.balle import log_zeta
from dprounds.errors import ParameterError
from dprounds.mechanisms import Gaussian, PoissonSampled
from dprounds.numerics.search import log_scale_minimum
from dprounds.planning import max_rounds

__all__ = [
    "Claim",
    "Figure1Curve",
    "RoundsCurves",
    "SampledApproximation",
    "claims",
    "epsilon_0",
    "epsilon_1",
    "figure_1",
    "figure_2",
    "figure_3",
    "lemma_2",
    "moments_epsilon",
    "moments_rounds",
    "moments_variance",
    "sampled_approximation",
    "theorem_5_variance",
]

Array = NDArray[np.float64]

RHO = _validate.Interval.parse("(0, inf)")
ROUNDS = _validate.Interval.parse("[0, inf)")


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


def _budget(rho: float, rounds: float, delta: float) -> tuple[float, float]:
    """ρT and δ, checked."""
    rho = _validate.real("rho", rho, RHO)
    rounds = _validate.real("rounds", rounds, ROUNDS)
    return rho * rounds, _validate.real("delta", delta, _validate.DELTA)


def moments_epsilon(*, rho: float, rounds: float, delta: float) -> float:
    """Epsilon of T Gaussian rounds by the moments accountant, ρT + sqrt(4 ρT log(1/δ)): the paper's equation (16).

    Examples
    --------
    >>> round(moments_epsilon(rho=1 / 800, rounds=500, delta=1e-5), 4)
    5.9899
    """
    total, delta = _budget(rho, rounds, delta)
    return total + math.sqrt(4.0 * total * -math.log(delta))


def moments_rounds(*, rho: float, epsilon: float, delta: float) -> float:
    """Rounds, not rounded down, at which `moments_epsilon` reaches `epsilon`."""
    rho = _validate.real("rho", rho, RHO)
    epsilon = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
    excess = -math.log(_validate.real("delta", delta, _validate.DELTA))
    return (math.sqrt(excess + epsilon) - math.sqrt(excess)) ** 2 / rho


def _infimum_below(delta: float, function: Callable[[Array], Array]) -> float:
    """The infimum of a function of the order over (1, 1/δ]."""
    last = 1.0 / delta - 1.0
    return log_scale_minimum(lambda t: function(1.0 + np.minimum(t, last)))[0]


def epsilon_0(*, rho: float, rounds: float, delta: float) -> float:
    """First infimum of Lemma 2, over orders in (1, 1/δ]: Balle's bound with its positive part."""
    total, delta = _budget(rho, rounds, delta)
    return _infimum_below(delta, lambda a: np.maximum(total * a - (math.log(delta) - log_zeta(a)) / (a - 1.0), 0.0))


def epsilon_1(*, rho: float, rounds: float, delta: float) -> float:
    """Second infimum of Lemma 2, over orders in (1, 1/δ]."""
    total, delta = _budget(rho, rounds, delta)

    def function(a: Array) -> Array:
        exponent = total * a * (a - 1.0)
        # log(1 + (e^x - 1)/(a δ)), by log-add-exp so that e^x may overflow
        with np.errstate(divide="ignore"):  # at T = 0 the logarithm of nothing is -inf, and the answer 0
            grown = exponent + np.log(-np.expm1(-exponent)) - np.log(a * delta)
        return np.logaddexp(0.0, grown) / (a - 1.0)

    return _infimum_below(delta, function)


def lemma_2(*, rho: float, rounds: float, delta: float) -> float:
    """Epsilon of T Gaussian rounds by the three-term minimum of Lemma 2.

    Examples
    --------
    >>> round(lemma_2(rho=1 / 800, rounds=500, delta=1e-5), 4)
    5.3777
    """
    total, checked = _budget(rho, rounds, delta)
    third = max(total / checked + math.log1p(-checked), 0.0)
    given = {"rho": rho, "rounds": rounds, "delta": delta}
    return min(epsilon_0(**given), epsilon_1(**given), third)


def _variance_arguments(epsilon: float, delta: float, rounds: float) -> tuple[float, float, float]:
    epsilon = _validate.real("epsilon", epsilon, RHO)
    delta = _validate.real("delta", delta, _validate.DELTA)
    return epsilon, -math.log(delta), _validate.real("rounds", rounds, ROUNDS)


def moments_variance(*, epsilon: float, delta: float, rounds: float) -> float:
    """The moments accountant's σ² to leading order as δ → 0: the paper's equation before Theorem 5, an **expansion**.

    Its remainder O(1/log(1/δ)) is dropped: it calibrates nothing.
    """
    epsilon, excess, rounds = _variance_arguments(epsilon, delta, rounds)
    return 2.0 * rounds / epsilon / epsilon * excess + rounds / epsilon


def theorem_5_variance(*, epsilon: float, delta: float, rounds: float) -> float:
    """Theorem 5's σ² to leading order as δ → 0, for ε > 2δ log(1/δ): an **expansion**.

    Its remainder O(log² log(1/δ) / log(1/δ)) is dropped, so the variance may be too small for its own target, and even
    negative: it calibrates nothing. `min_noise_multiplier` does.

    Examples
    --------
    >>> round(theorem_5_variance(epsilon=1.0, delta=1e-5, rounds=100))
    1575
    """
    epsilon, excess, rounds = _variance_arguments(epsilon, delta, rounds)
    if not epsilon > 2.0 * math.exp(-excess) * excess:
        raise ParameterError(
            f"epsilon must be above 2 delta log(1/delta) = {2.0 * math.exp(-excess) * excess:.6g} for Theorem 5, "
            f"got {epsilon:g}."
        )
    saved = 2.0 * rounds / epsilon / epsilon * (math.log(2.0 * excess) + 1.0 - math.log(epsilon))
    return moments_variance(epsilon=epsilon, delta=delta, rounds=rounds) - saved


@dataclass(frozen=True, kw_only=True)
class SampledApproximation:
    """Abadi's Lemma 3 without its O(q³) term: sampled SGD as if it were a Gaussian of this ρ.

    Not a guarantee. It is an approximation where `rate_is_small` and only for orders up to `largest_order`; elsewhere
    it can be far below the truth.
    """

    sampling_rate: float
    noise_multiplier: float
    rho: float
    rate_is_small: bool
    largest_order: float

    def holds_at(self, order: float) -> bool:
        """Whether the lemma's conditions are met at `order`."""
        return self.rate_is_small and _validate.real("order", order, _validate.ORDER) <= self.largest_order


def sampled_approximation(*, sampling_rate: float, noise_multiplier: float) -> SampledApproximation:
    """ρ = q²/((1-q)σ²) of the paper's Figure 3, with the conditions of Abadi's Lemma 3.

    Examples
    --------
    >>> sampled_approximation(sampling_rate=0.001, noise_multiplier=4.0).holds_at(50.0)
    True
    >>> sampled_approximation(sampling_rate=0.1, noise_multiplier=4.0).rate_is_small
    False
    """
    q = _validate.real("sampling_rate", sampling_rate, _validate.Interval.parse("(0, 1)"))
    sigma = _validate.real("noise_multiplier", noise_multiplier, _validate.NOISE_MULTIPLIER)
    return SampledApproximation(
        sampling_rate=q,
        noise_multiplier=sigma,
        rho=q / sigma / (1.0 - q) * (q / sigma),
        rate_is_small=q < 1.0 / (16.0 * sigma),
        largest_order=1.0 + max(sigma * sigma * math.log(1.0 / (q * sigma)), 0.0),
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


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A number that the paper states, and what comes out here."""

    what: str
    paper: str
    ours: str
    agrees: bool


def _lemma_2_rounds(*, rho: float, epsilon: float, delta: float) -> float:
    """Rounds, not rounded down, at which `lemma_2` reaches `epsilon`, by bisection on its logarithm."""
    low = moments_rounds(rho=rho, epsilon=epsilon, delta=delta)
    high = 4.0 * low
    for _ in range(60):  # a factor of 4, halved in ratio until it is one double
        middle = math.sqrt(low * high)
        fits = lemma_2(rho=rho, rounds=middle, delta=delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def claims() -> tuple[Claim, ...]:
    """Every number that the paper claims, beside ours.

    Examples
    --------
    >>> all(claim.agrees for claim in claims())
    True
    """
    delta, rho = 1e-5, 0.5 / 20.0**2
    gains = {
        n: moments_epsilon(rho=rho, rounds=n, delta=delta) - lemma_2(rho=rho, rounds=n, delta=delta)
        for n in (1, 10, 100, 250, 500, 750, 1000)
    }
    best = max(gains, key=lambda n: gains[n])
    step = Gaussian(20.0)
    more = {
        epsilon: max_rounds(step, epsilon=epsilon, delta=delta, method="closed-form")
        - max_rounds(step, epsilon=epsilon, delta=delta, method="moments")
        for epsilon in (6.0, 7.0, 8.0)
    }
    q = 0.001
    sgd = sampled_approximation(sampling_rate=q, noise_multiplier=4.0).rho
    epochs_ma = q * moments_rounds(rho=sgd, epsilon=1.0, delta=delta)
    epochs_lemma = q * _lemma_2_rounds(rho=sgd, epsilon=1.0, delta=delta)
    return (
        Claim(
            what="Figure 2 (σ = 20, δ = 1e-5): largest gain in ε of Lemma 2 over the moments accountant, T ≤ 1000",
            paper="0.75",
            ours=f"{gains[best]:.4f} at T = {best}",
            agrees=abs(gains[best] - 0.75) < 0.01,
        ),
        Claim(
            what="Figure 2: more iterations for the same ε, for any ε larger than 6",
            paper="100",
            ours=", ".join(f"{n} at ε = {epsilon:g}" for epsilon, n in more.items()),
            agrees=min(more.values()) >= 100,
        ),
        Claim(
            what="Figure 3 (q = 0.001, σ = 4, δ = 1e-5): more epochs for the same ε, here ε = 1",
            paper="often over a hundred",
            ours=f"{epochs_lemma - epochs_ma:.1f} ({epochs_ma:.1f} and {epochs_lemma:.1f})",
            agrees=epochs_lemma - epochs_ma > 100.0,
        ),
    )
