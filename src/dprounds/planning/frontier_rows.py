r"""What each batch size makes of a budget and of a number of epochs: the least noise, and the floor below it.

Training follows the mean gradient, summed over rounds. With noise multiplier σ, batch size B and T rounds the noise on
it is, relative to the clipping norm and up to a common factor,

.. math:: \nu = \frac{\sigma}{B\sqrt T}, \qquad \nu_0 = \frac{\sigma_1}{n},

where :math:`\sigma_1` is the noise of one release of all n records within the same budget. :math:`\nu` falls to
:math:`\nu_0` as rounds grow, and is :math:`\nu_0` for full batches, whatever their number. `excess` is
:math:`\nu/\nu_0 - 1`. It says how much noise another plan could save, and predicts no accuracy.

>>> found = frontier(4_000, epsilon=1.0, delta=1e-5, epochs=7, batch_sizes=[64, 256, 4_000])
>>> [(row.batch_size, row.rounds, round(row.noise_multiplier, 3), round(row.excess, 3)) for row in found]
[(64, 441, 1.506, 0.201), (256, 112, 2.764, 0.094), (4000, 7, 9.87, 0.0)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from dprounds import _validate
from dprounds.accounting.best_order import Guess, epsilon_by_orders
from dprounds.accounting.rounds import parameter_by_secants, unproven_epsilon
from dprounds.errors import InfeasibleError, NumericalError, ParameterError
from dprounds.mechanisms import Run
from dprounds.planning.loaders import LOADERS, Loader, batches_per_epoch
from dprounds.planning.parameters import plan_noise_multiplier
from dprounds.planning.plan import Plan
from dprounds.planning.sensitivity import PlanPoint, Sensitivities, sensitivities
from dprounds.planning.trends import Trends

__all__ = ["Compute", "Frontier", "FrontierRow", "Planner", "frontier"]

# By what a Rényi accountant converts; Opacus and others use the same bound.
RENYI = "balle"
# Relative, of the least noise.
TOLERANCE = 1e-6
# A guess is proven, and not made better, from this expected distance of its cost on, relative: it is accepted then.
NEAR_ENOUGH = 0.3 * TOLERANCE
# About how wrong a slope is, relative: one that is taken from the floor; one that neighbours tell, over how wrong that
# of the last row was, and at least; and one by a secant, as a part of the length of that.
FLOOR_SLOPE_ERROR = 0.25
SLOPE_ERROR_GROWTH = 3.0
LEAST_SLOPE_ERROR = 5e-4
BEND = 0.5
# Between places that are closer than this, relative, rounding would be taken for a slope.
LEAST_APART = 1e-5
# Costs of one search, before a slower one is asked; no step of it is longer, in logarithms.
MOST_COSTS = 10
LONGEST_STEP = 1.0
# What a Rényi account would lose is wanted to a few digits.
RENYI_TOLERANCE = 1e-3
# A step of a secant this short, relative, ends in a point that is a tenth of it away.
RENYI_SETTLED = 2e-3
# Relative, of the best order: at a bend of the curve epsilon is known to about as much.
RENYI_NARROW = 5e-4
# The floor divides every excess, so that it is sought to more digits than they have.
FLOOR_TOLERANCE = 1e-12
# So many batch sizes are compared unless others are given: all records, and the largest powers of two below.
DEFAULT_SIZES = 12
# Nobody trains privately with smaller batches, and Rényi accounts of them are expensive.
LEAST_DEFAULT_SIZE = 16
POSITIVE = _validate.Interval.parse("(0, inf)")
# Beyond this, doubles no longer count one by one.
LARGEST_COUNT = 2**53


@dataclass(frozen=True, kw_only=True)
class Compute:
    """How long training may take: one of epochs, rounds and examples."""

    epochs: float | None = None
    rounds: int | None = None
    examples: int | None = None

    @classmethod
    def of(cls, epochs: float | None, rounds: float | None, examples: float | None) -> Compute:
        """One of the three, checked."""
        if sum(given is not None for given in (epochs, rounds, examples)) != 1:
            raise ParameterError("Give one of {epochs}, {rounds} and {examples}: how long training may take.", one="")
        return cls(
            epochs=None if epochs is None else _validate.real("epochs", epochs, POSITIVE),
            rounds=None if rounds is None else _validate.count("rounds", rounds, least=1, most=LARGEST_COUNT),
            examples=None if examples is None else _validate.count("examples", examples, least=1, most=LARGEST_COUNT),
        )

    def rounds_of(self, loader: Loader, batch_size: int, dataset_size: int) -> int:
        """The rounds of batches of this size; of epochs, part of one is rounded up to whole rounds."""
        if self.epochs is not None:
            # the decimal that a person wrote: 0.1 is a tenth
            return math.ceil(Fraction(repr(self.epochs)) * batches_per_epoch(batch_size, dataset_size))
        if self.examples is not None:
            return math.floor(self.examples / loader.records_per_round(batch_size, dataset_size))
        return self.rounds or 0

    def __str__(self) -> str:
        name, value = next((name, value) for name, value in vars(self).items() if value is not None)
        return f"{value:g} {name}" if name == "epochs" else f"{value:,} {name}"


@dataclass(frozen=True, kw_only=True)
class FrontierRow:
    """One plan: a batch size, its rounds, and the least noise that keeps the budget.

    Parameters
    ----------
    batch_size, rounds, epochs
        Rounds are the batches that a loop makes: an epoch has ``ceil(dataset_size / batch_size)`` of them.
    examples
        How many gradients of single records are computed, on average.
    noise_multiplier
        The least by the exact account, from above within a millionth. For loaders of which only a bound is proven
        (fixed-size, shuffled) the least that is proven.
    epsilon
        What the run costs, at most the budget.
    noise_on_mean
        Noise on the mean gradient of one round, over the clipping norm.
    total_noise
        ν, the noise on the mean gradient of all rounds.
    excess
        By how much of the floor ν is above it.
    renyi_excess
        The same with the noise that a Rényi account (Balle's bound) asks for, over the same floor.
    renyi_order
        About the order that is best for it.
    run
        What is accounted.
    point
        The parameters that `sensitivities` moves.
    """

    batch_size: int
    rounds: int
    epochs: float
    examples: int
    noise_multiplier: float
    epsilon: float
    noise_on_mean: float
    total_noise: float
    excess: float
    renyi_excess: float
    renyi_order: float
    run: Run
    point: PlanPoint = field(repr=False)

    @cached_property
    def sensitivities(self) -> Sensitivities:
        """What one more epoch, one percent more noise and one percent more data would change; computed when asked."""
        return sensitivities(self.point, self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """A row for each batch size, from the smallest, and the floor.

    `floor_noise_multiplier` is σ₁, that of one release of all records; `floor` is ν₀.
    """

    dataset_size: int
    epsilon: float
    delta: float
    sampling: str
    floor_noise_multiplier: float
    floor: float
    rows: tuple[FrontierRow, ...]

    def __iter__(self) -> Iterator[FrontierRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> FrontierRow:
        return self.rows[number]


def frontier(
    dataset_size: int,
    *,
    epsilon: float,
    delta: float,
    batch_sizes: Sequence[int] | None = None,
    epochs: float | None = None,
    rounds: int | None = None,
    examples: int | None = None,
    sampling: str = "poisson",
) -> Frontier:
    """The least noise at each batch size within a budget and a length of training, and its excess over the floor.

    Guarantee
    ---------
    Raises, or returns rows whose runs are within (`epsilon`, `delta`), each with a noise multiplier that is the least
    to a millionth by the account of its loader.

    Parameters
    ----------
    dataset_size
        Records in all, an integer in [1, inf).
    epsilon, delta
        The budget; delta in (0, 1), below one over the number of records.
    batch_sizes
        Those to compare, each in [1, dataset_size]; by default all records and the eleven largest powers of two below.
    epochs, rounds, examples
        How long training may take, one of the three: passes over the data, rounds, or gradients of single records.
        Batch sizes that make no round in that time are left out.
    sampling
        The loader: ``"poisson"``, ``"allocation"``, ``"fixed-size"``, ``"shuffled"`` or ``"none"``, each for the
        neighbours that it has by default.

    Examples
    --------
    >>> found = frontier(60_000, epsilon=3.0, delta=1e-5, epochs=60, batch_sizes=[256, 2_048])
    >>> [round(row.excess, 2) for row in found]
    [0.38, 0.08]
    """
    planner = Planner.of(dataset_size, epsilon, delta, sampling)
    compute = Compute.of(epochs, rounds, examples)
    return planner.frontier(planner.sizes(batch_sizes), compute)


@dataclass(frozen=True, kw_only=True)
class Planner:
    """A data set, a budget and a loader, of which rows are made."""

    dataset_size: int
    epsilon: float
    delta: float
    loader: Loader
    floor_noise_multiplier: float

    @classmethod
    def of(cls, dataset_size: int, epsilon: float, delta: float, sampling: str) -> Planner:
        """One whose arguments are checked."""
        records = _validate.count("dataset_size", dataset_size, least=1, most=LARGEST_COUNT)
        epsilon = _validate.real("epsilon", epsilon, POSITIVE)
        delta = _validate.real("delta", delta, _validate.DELTA)
        loader = LOADERS[_validate.choice("sampling", sampling, tuple(LOADERS))]
        floor = plan_noise_multiplier(
            lambda noise: loader.run(noise, records, records, 1),
            epsilon=epsilon,
            delta=delta,
            tolerance=FLOOR_TOLERANCE,
        )
        return cls(
            dataset_size=records, epsilon=epsilon, delta=delta, loader=loader, floor_noise_multiplier=floor.value
        )

    @property
    def floor(self) -> float:
        """ν₀."""
        return self.floor_noise_multiplier / self.dataset_size

    def sizes(self, batch_sizes: Sequence[int] | None) -> list[int]:
        """Batch sizes, increasing."""
        if batch_sizes is None:
            if self.loader.name == "none":
                return [self.dataset_size]
            powers = [
                2**power for power in range((self.dataset_size - 1).bit_length()) if 2**power >= LEAST_DEFAULT_SIZE
            ]
            return [*powers[-(DEFAULT_SIZES - 1) :], self.dataset_size]
        given: object = batch_sizes
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
            raise ParameterError(
                "{argument} must be a list of batch sizes, got {value}.",
                argument="batch_sizes",
                value=_validate.show(given),
            )
        return sorted({self.size("batch_sizes", size) for size in given})

    def size(self, name: str, batch_size: float) -> int:
        """One batch size."""
        found = _validate.count(name, batch_size, least=1, most=self.dataset_size)
        if self.loader.name == "none" and found != self.dataset_size:
            raise ParameterError(
                "{argument} must be the whole data set, {most}, if every round sees every record, got {value}.",
                argument=name,
                most=self.dataset_size,
                value=found,
            )
        return found

    def frontier(self, sizes: Sequence[int], compute: Compute, trends: Trends | None = None) -> Frontier:
        """The rows of all sizes that make a round."""
        lengths = {size: compute.rounds_of(self.loader, size, self.dataset_size) for size in sizes}
        lengths = {size: rounds for size, rounds in lengths.items() if rounds}
        if not lengths:
            raise InfeasibleError(
                f"Not one round of {min(sizes):,} records fits within {compute}.",
                advice="Train longer, or with smaller batches.",
            )
        if max(lengths.values()) > LARGEST_COUNT:
            raise InfeasibleError(
                f"{compute} make more rounds than the 2^53 that doubles count one by one.", advice="Train for less."
            )
        trends = Trends() if trends is None else trends
        # from the largest, whose noise is next to a closed form
        rows = [self.row(size, lengths[size], trends) for size in reversed(lengths)]
        return Frontier(
            dataset_size=self.dataset_size,
            epsilon=self.epsilon,
            delta=self.delta,
            sampling=self.loader.name,
            floor_noise_multiplier=self.floor_noise_multiplier,
            floor=self.floor,
            rows=tuple(reversed(rows)),
        )

    def row(
        self, batch_size: int, rounds: int, trends: Trends | None = None, *, with_renyi: bool = True
    ) -> FrontierRow:
        """The plan of so many rounds; trends of other rows tell where its noise is to be sought, and learn of it.

        Without a Rényi account, which takes as long, its excess is not a number.
        """

        def make_run(noise: float) -> Run:
            return self.loader.run(noise, batch_size, self.dataset_size, rounds)

        trends = Trends() if trends is None else trends
        limit = self.limit_noise(batch_size, rounds)
        at = math.log(limit)
        # other rows say by how much the limit of many rounds is off, and its slope, as ratios that change slowly
        near = limit * math.exp(trends.foretold("ratio", at) or 0.0)
        steeper = trends.foretold("steeper", at)
        slope = self.slope(near) * (steeper or 1.0)
        try:
            plan, found = self.least_noise(
                make_run, near, slope, trends.foretold("error", at, points=1) or FLOOR_SLOPE_ERROR
            )
            trends.add("ratio", at, math.log(plan.value / limit))
            trends.add("steeper", at, found / self.slope(plan.value))
            trends.add("error", at, max(SLOPE_ERROR_GROWTH * abs(found / slope - 1.0), LEAST_SLOPE_ERROR))
            renyi = Guess(math.nan, math.nan)
            if with_renyi:
                # what a Rényi account asks for in addition changes slowly too
                more, above_one = trends.foretold("more", at), trends.foretold("order above one", at)
                order = None if above_one is None else 1.0 + math.exp(above_one)
                renyi = self.renyi_noise(make_run, math.exp(more or 0.0) * plan.value, order, found)
                trends.add("more", at, math.log(renyi.value / plan.value))
                trends.add("order above one", at, math.log(renyi.order - 1.0))
        except InfeasibleError as error:
            raise InfeasibleError(f"With batches of {batch_size:,} for {rounds:,} rounds: {error}") from None
        records = self.loader.records_per_round(batch_size, self.dataset_size)
        total = plan.value / (float(records) * math.sqrt(rounds))
        return FrontierRow(
            batch_size=batch_size,
            rounds=rounds,
            epochs=rounds / batches_per_epoch(batch_size, self.dataset_size),
            noise_multiplier=plan.value,
            epsilon=plan.epsilon,
            examples=round(rounds * records),
            noise_on_mean=plan.value / float(records),
            total_noise=total,
            excess=total / self.floor - 1.0,
            renyi_excess=renyi.value / plan.value * (total / self.floor) - 1.0,
            renyi_order=renyi.order,
            run=make_run(plan.value),
            point=PlanPoint(
                loader=self.loader,
                noise_multiplier=plan.value,
                batch_size=batch_size,
                dataset_size=self.dataset_size,
                rounds=rounds,
                delta=self.delta,
            ),
        )

    def limit_noise(self, batch_size: int, rounds: int) -> float:
        r"""About the noise multiplier, as in the limit of many rounds, in which only their number and rate count.

        There they cost as much as one Gaussian with :math:`1/\sigma_1^2 = T q^2 (e^{1/\sigma^2} - 1)` [BDLS20]; where a
        record is replaced, which moves a sum twice as far, with half of both noises.
        """
        rate = float(self.loader.records_per_round(batch_size, self.dataset_size)) / self.dataset_size
        floor = self.floor_noise_multiplier / self.moved
        return self.moved / math.sqrt(math.log1p(1.0 / (rounds * (rate * floor) ** 2)))

    def least_noise(
        self, make_run: Callable[[float], Run], near: float, slope: float, slope_error: float
    ) -> tuple[Plan, float]:
        """The least noise multiplier within the budget, sought from `near`, with its epsilon, and the slope of that."""
        for lines_first in (False,) if self.loader.is_by_integrals else (True, False):  # of rare records lines mislead
            with suppress(NumericalError):
                found = self.noise_by_secants(make_run, near, slope, slope_error, lines_first=lines_first)
                if found is not None:
                    return found
        return plan_noise_multiplier(make_run, epsilon=self.epsilon, delta=self.delta, tolerance=TOLERANCE), slope

    def noise_by_secants(
        self, make_run: Callable[[float], Run], near: float, slope: float, slope_error: float, *, lines_first: bool
    ) -> tuple[Plan, float] | None:
        """The same by secants of the logarithms, in which costs are nearly straight; None if they do not find it.

        Where `lines_first`, costs are estimated by lines, which prove nothing, until the next place is expected to
        be the last.
        """
        wanted = (1.0 - 0.4 * TOLERANCE) * self.epsilon  # the middle of what is accepted
        noise, is_last, start = near, not lines_first, 1.0
        before: tuple[float, float] | None = None
        for _ in range(MOST_COSTS):
            run = make_run(noise)
            if is_last:
                cost = run.epsilon(delta=self.delta)
                # epsilon falls at least as fast as one over the noise: much less noise would exceed the budget
                if (1.0 - 0.8 * TOLERANCE) * self.epsilon <= cost <= self.epsilon:
                    return Plan(noise, cost), slope
            else:
                cost, start = unproven_epsilon(run.law(), delta=self.delta, start=start)
            if not 0 < cost < math.inf:
                return None
            off = math.log(cost / wanted)
            if before is not None and abs(apart := math.log(noise / before[0])) >= LEAST_APART:
                slope, slope_error = (off - before[1]) / apart, BEND * abs(before[1])
            step = -off / slope if slope < 0 else math.inf
            if not abs(step) < LONGEST_STEP:
                return None
            is_last = is_last or abs(off) * slope_error <= NEAR_ENOUGH
            before, noise = (noise, off), noise * math.exp(step)
        return None

    def renyi_noise(
        self, make_run: Callable[[float], Run], near: float, near_order: float | None, slope: float
    ) -> Guess:
        """The noise multiplier that a Rényi account asks for, sought from `near`, and its best order."""
        order = near_order

        def cost(noise: float) -> float:
            nonlocal order
            found = epsilon_by_orders(
                make_run(noise).finite_rdp,
                infinite_mass=0.0,
                delta=self.delta,
                method=RENYI,
                near_order=order,
                narrow=RENYI_NARROW,
            )
            order = found.order if found.order < math.inf else None
            return found.value

        noise = parameter_by_secants(cost, limit=self.epsilon, guess=near, settled=RENYI_SETTLED, slope=slope)
        if noise is None:
            noise = plan_noise_multiplier(
                make_run, epsilon=self.epsilon, delta=self.delta, method=RENYI, tolerance=RENYI_TOLERANCE
            ).value
        return Guess(noise, order or math.nan)

    @property
    def moved(self) -> float:
        """How far a sum moves, over the clipping norm: twice as far where a record is replaced."""
        return 2.0 if self.loader.name == "fixed-size" else 1.0

    def slope(self, noise: float) -> float:
        """About the power of the noise with which epsilon falls: that of the Gaussian of `limit_noise`."""
        square = (self.moved / noise) ** 2
        growth = square / -math.expm1(-square) if square > 0 else 1.0  # of so much noise the square may vanish
        return -self.floor_elasticity * growth

    @cached_property
    def floor_elasticity(self) -> float:
        """By what power of one over its noise the epsilon of the floor's release grows."""
        records, step = self.dataset_size, 1e-3
        costs = [
            self.loader.run(self.floor_noise_multiplier * factor, records, records, 1).epsilon(delta=self.delta)
            for factor in (1.0 - step, 1.0 + step)
        ]
        if not 0 < costs[1] <= costs[0] < math.inf:  # next to an epsilon of nothing it is nothing in a step
            return 1.0
        return math.log(costs[0] / costs[1]) / (2.0 * step)
