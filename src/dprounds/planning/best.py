"""The plan that is close to the floor at the least compute, and what to change in the one that is in use.

>>> found = best_plan(60_000, epsilon=3.0, delta=1e-5, epochs=60, batch_sizes=[256, 1_024, 4_096], habit=256)
>>> found.plan.batch_size, found.plan.epochs, found.plan.rounds, round(found.plan.noise_multiplier, 3)
(4096, 27.0, 405, 2.101)
>>> print(found.sentences[1])
Batches of 256 are 37.6 % above it, and within 10 % after 283 epochs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dprounds import _validate
from dprounds.errors import InfeasibleError
from dprounds.planning.epochs_within import epochs_within
from dprounds.planning.frontier_rows import Compute, Frontier, FrontierRow, Planner
from dprounds.planning.loaders import batches_per_epoch
from dprounds.planning.trends import Trends

__all__ = ["BestPlan", "best_plan"]

# With fewer rounds accuracy was seen to depend on more than the total noise (docs/training.md).
MIN_ROUNDS = 125
# A plan this near to the floor counts as good: the rest was seen to be worth some 0.4 points of accuracy.
WITHIN = 0.10
# From here on numbers in sentences are whole.
LARGE = 1000
WITHIN_INTERVAL = _validate.Interval.parse("(0, inf)")


@dataclass(frozen=True, kw_only=True)
class BestPlan:
    """A plan, what is in use today, and what to change.

    Parameters
    ----------
    plan
        The cheapest within `within` of the floor; or else, the one of least excess that the compute allows.
    is_within
        Which of the two it is.
    habit
        The plan that is in use, of the whole compute; None if no batch size was given.
    nothing_to_gain
        Whether no other plan lowers the noise by more than a part `within`: the habit is within it already, or,
        without a habit, every batch size is that makes enough rounds.
    epochs_within
        For each batch size the fewest whole epochs that bring it within; None where no number up to 100,000 does.
    learning_rate_factor
        By what to multiply the learning rate of the habit: its rounds over those of the plan. Learning rate times
        clipping norm times rounds should stay about the same.
    frontier
        All batch sizes at the whole compute.
    """

    plan: FrontierRow
    is_within: bool
    habit: FrontierRow | None
    nothing_to_gain: bool
    epochs_within: tuple[tuple[int, int | None], ...]
    learning_rate_factor: float | None
    frontier: Frontier
    min_rounds: int
    within: float

    @property
    def sentence(self) -> str:
        """What to do, in plain words."""
        return " ".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same, one by one."""
        plan, percent = self.plan, f"{100 * self.within:g} %"
        said = [
            f"Train {_of(plan)} with noise multiplier {_up(plan.noise_multiplier)}: "
            f"{_percent(plan.excess)} above the floor."
        ]
        if not self.is_within:
            said[0] = (
                f"No plan of this length is within {percent} of the floor. Nearest: {said[0][0].lower()}{said[0][1:]}"
            )
        if self.habit is not None:
            epochs = dict(self.epochs_within)[self.habit.batch_size]
            if self.nothing_to_gain:
                said.append(
                    f"Nothing to gain in noise: batches of {self.habit.batch_size:,} are "
                    f"{_percent(self.habit.excess)} above it already."
                )
            else:
                said.append(
                    f"Batches of {self.habit.batch_size:,} are {_percent(self.habit.excess)} above it"
                    + ("." if epochs is None else f", and within {percent} after {epochs:,} epochs.")
                )
            ratio = plan.examples / self.habit.examples
            if ratio < 1:
                said.append(f"The plan takes {100 * ratio:.0f} % of their compute.")
            if self.learning_rate_factor is not None and plan.rounds != self.habit.rounds:
                said.append(f"Multiply the learning rate by {_factor(self.learning_rate_factor)}.")
        elif self.nothing_to_gain:
            said.append(f"Nothing to gain: every batch size of {self.min_rounds} rounds or more is within {percent}.")
        return tuple(said)


def best_plan(
    dataset_size: int,
    *,
    epsilon: float,
    delta: float,
    batch_sizes: Sequence[int] | None = None,
    epochs: float | None = None,
    rounds: int | None = None,
    examples: int | None = None,
    sampling: str = "poisson",
    min_rounds: int = MIN_ROUNDS,
    within: float = WITHIN,
    habit: int | None = None,
) -> BestPlan:
    """The cheapest plan whose noise is within a part `within` of the floor, or the nearest that the compute allows.

    Without a minimum of rounds the least noise is always that of full batches, which train badly in few rounds.

    Guarantee
    ---------
    As for `frontier`: the runs of all plans are within (`epsilon`, `delta`). It predicts no accuracy.

    Parameters
    ----------
    dataset_size, epsilon, delta, batch_sizes, epochs, rounds, examples, sampling
        As for `frontier`.
    min_rounds
        Plans of fewer rounds are not considered, an integer in [1, inf).
    within
        How near to the floor is near enough, in (0, inf).
    habit
        The batch size in use today, for as long as the compute allows.

    Examples
    --------
    >>> best_plan(4_000, epsilon=0.5, delta=1e-5, epochs=30, batch_sizes=[256]).epochs_within
    ((256, 3),)
    """
    planner = Planner.of(dataset_size, epsilon, delta, sampling)
    compute = Compute.of(epochs, rounds, examples)
    within = _validate.real("within", within, WITHIN_INTERVAL)
    least = _validate.count("min_rounds", min_rounds, least=1)
    sizes = planner.sizes(batch_sizes)
    used = None if habit is None else planner.size("habit", habit)
    trends = Trends()
    found = planner.frontier(sorted({*sizes, *([] if used is None else [used])}), compute, trends)
    today = next((row for row in found if row.batch_size == used), None)
    if used is not None and today is None:
        raise InfeasibleError(f"Not one round of {used:,} records fits within {compute}.", advice="Train longer.")
    enough = [row for row in found if row.rounds >= least and row.batch_size in sizes]
    if not enough:
        most = max(row.rounds for row in found)
        raise InfeasibleError(
            f"No batch size makes {least:,} rounds within {compute}: the most is {most:,}.",
            advice="Train longer, choose smaller batches, or lower {min_rounds}.",
            most=most,
        )
    fewest = epochs_within(planner, [row.batch_size for row in found], within)
    near = [row for row in enough if row.excess <= within]
    plan = min(enough, key=lambda row: (row.excess, row.examples))
    if near:
        batch, length = min(
            ((row.batch_size, _length(planner, row, fewest[row.batch_size], least)) for row in near),
            key=lambda pair: (pair[1] * planner.loader.records_per_round(pair[0], planner.dataset_size), -pair[0]),
        )
        whole = next(row for row in near if row.batch_size == batch)
        plan = whole if whole.rounds == length else planner.row(batch, length, trends)
    return BestPlan(
        plan=plan,
        is_within=bool(near),
        habit=today,
        nothing_to_gain=all(row.excess <= within for row in (enough if today is None else [today])),
        epochs_within=tuple(sorted(fewest.items())),
        learning_rate_factor=None if today is None else today.rounds / plan.rounds,
        frontier=found,
        min_rounds=least,
        within=within,
    )


def _length(planner: Planner, row: FrontierRow, epochs: int | None, least: int) -> int:
    """The fewest rounds of a batch size that is near the floor: whole epochs, unless the compute ends before."""
    batches = batches_per_epoch(row.batch_size, planner.dataset_size)
    wanted = max(epochs or 0, -(-least // batches)) * batches
    return min(wanted, row.rounds) if epochs is not None else row.rounds


def _of(plan: FrontierRow) -> str:
    epochs = f"{plan.epochs:.4g} epoch{'' if plan.epochs == 1 else 's'}"
    return f"batches of {plan.batch_size:,} for {epochs} ({plan.rounds:,} rounds)"


def _percent(excess: float) -> str:
    percent = 100 * max(excess, 0.0)
    return f"{percent:.1f} %" if percent < LARGE else f"{percent:,.0f} %"


def _factor(factor: float) -> str:
    return f"{factor:.3g}" if factor < LARGE else f"{factor:,.0f}"


def _up(noise: float) -> str:
    """A noise multiplier with five digits, not below it."""
    digits = 4 - math.floor(math.log10(noise))
    return f"{math.ceil(noise * 10.0**digits) / 10.0**digits:.5g}"
