"""The title question, for the paper's Gaussian and for an MNIST-size DP-SGD run; the pictures; the paper's claims."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from dprounds.cli import main as dprounds

FIGURES = Path("figures")

COMMANDS = {
    "The paper's Gaussian: how many rounds?": (
        f"rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20 --plot {FIGURES}/rounds-gaussian.png"
    ),
    "DP-SGD on 60,000 images, batches of 256: how many rounds?": (
        "rounds --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 "
        f"--plot {FIGURES}/rounds-dp-sgd.png"
    ),
    "The same, trained for 60 epochs: what does it cost?": (
        "epsilon --delta 1e-5 --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 60"
    ),
    "The paper, recomputed": f"paper --out {FIGURES}",
}


def main() -> int:
    FIGURES.mkdir(exist_ok=True)
    for title, command in COMMANDS.items():
        print(f"\n{title}\n$ dprounds {command}")
        code = dprounds(shlex.split(command))
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
