"""The pictures of the documentation: ``python docs/figures.py`` draws them anew into ``docs/figures``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from dprounds import Gaussian, PoissonSampled, curves, max_rounds, plots
from dprounds.mechanisms import Release

FOLDER = Path(__file__).parent / "figures"

DELTA = 1e-5
# The tutorial's run: 60 epochs of 60,000 records in batches of 256.
STEP = PoissonSampled(Gaussian(1.1), sampling_rate=256 / 60_000)
ROUNDS = 14_062
# `balle` and `closed-form` would lie on the line of `optimal`.
METHODS = ("moments", "optimal", "exact")
# A little more than the last answer, so that every curve is seen to cross the budget.
BEYOND = 1.1


def rounds_within(step: Release, *, epsilon: float) -> Figure:
    """Epsilon over rounds of `step`, with the rounds that each method allows within `epsilon`."""
    allowed = {method: max_rounds(step, epsilon=epsilon, delta=DELTA, method=method) for method in METHODS}
    last = int(BEYOND * max(allowed.values()))
    curve = curves.epsilon_over_rounds(
        step, delta=DELTA, last=last, methods=METHODS, including=sorted(set(allowed.values()))
    )
    return plots.epsilon_over_rounds(curve, epsilon=epsilon, allowed=allowed)


PICTURES: dict[str, Callable[[], Figure]] = {
    "rounds": lambda: rounds_within(Gaussian(20.0), epsilon=6.0),
    "tutorial-rounds": lambda: rounds_within(STEP, epsilon=3.0),
    "tutorial-trade-off": lambda: plots.trade_off(curves.trade_off_curve(STEP * ROUNDS)),
    "profile": lambda: plots.privacy_profile(curves.privacy_profile(STEP * ROUNDS, methods=METHODS), delta=DELTA),
    "joint-range": lambda: plots.joint_range(curves.conversion_picture(epsilon=1.0, order=4.0)),
}


def main(folder: Path = FOLDER) -> None:
    """Draw every picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        plots.save(draw(), folder / f"{name}.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
