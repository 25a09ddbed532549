"""How long the command line keeps a person waiting: whole processes, as they are installed and started before.

The modules are compiled once, as an installer does, and each question is asked several times. Targets are compared with
the processor time, which on a machine without other work is that of the clock.
"""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SGD = "--noise-multiplier 1.1 --batch-size 256 --dataset-size 60000"
RUN = f"{SGD} --epochs 60"
BUDGET = "--epsilon 3 --delta 1e-5"
PLANNED = "--dataset-size 60000 --epsilon 3 --delta 1e-5 --epochs 30 --habit 256"
LOADERS = ("poisson", "allocation", "fixed-size", "shuffled")
# Seconds; a plan is some forty answers.
HELP_TARGET, TARGET, PLAN_TARGET = 0.4, 0.5, 1.0
COMMANDS = {
    "--help": HELP_TARGET,
    "rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20": TARGET,
    "epsilon --delta 1e-5 --mechanism laplace --noise-multiplier 50 --rounds 500": TARGET,
    "rate --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --rounds 10000": TARGET,
    "convert --order 8 --rdp 0.5 --delta 1e-5": TARGET,
    **{f"rounds {BUDGET} {SGD} --sampling {loader}": TARGET for loader in LOADERS},
    **{f"epsilon --delta 1e-5 {RUN} --sampling {loader}": TARGET for loader in LOADERS},
    **{f"delta --epsilon 3 {RUN} --sampling {loader}": TARGET for loader in LOADERS},
    **{
        f"noise {BUDGET} --batch-size 256 --dataset-size 60000 --epochs 60 --sampling {loader}": TARGET
        for loader in LOADERS
    },
    **{f"plan {PLANNED} --sampling {loader}": PLAN_TARGET for loader in LOADERS},
    **{f"statement --delta 1e-5 {RUN} --sampling {loader}": TARGET for loader in LOADERS},
    f"certify --delta 1e-5 {RUN} --out claim.json": TARGET,
    "verify claim.json": TARGET,
    "ledger status patients": TARGET,
    "ledger history patients": TARGET,
    "ledger verify": TARGET,
    "ledger cost patients --noise-multiplier 20 --rounds 100": TARGET,
    f"ledger cost patients {RUN}": TARGET,
}
# What makes the budget that the questions to a ledger are about.
BEFORE = "ledger open patients --epsilon 3 --delta 1e-6"
REPEATS = 5


class Waited(NamedTuple):
    """Seconds by the clock, and of processor time."""

    clock: float
    processor: float


def seconds(command: str, folder: Path, environment: dict[str, str]) -> Waited:
    """The least of several runs, which others on the machine have held up least."""
    taken = []
    for _ in range(REPEATS):
        start, used = time.perf_counter(), _processor_time()
        subprocess.run(
            [sys.executable, "-m", "dprounds", *shlex.split(command)],
            check=True,
            capture_output=True,
            cwd=folder,
            env=environment,
        )
        taken.append((time.perf_counter() - start, _processor_time() - used))
    return Waited(*(min(kind) for kind in zip(*taken, strict=True)))


def _processor_time() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    print("\nThe command line, whole processes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": f"{folder}/compiled", "DPROUNDS_LEDGER": f"sqlite:///{folder}/budget.db"}
        subprocess.run([sys.executable, "-m", "dprounds", *shlex.split(BEFORE)], check=True, env=environment)
        for command, target in COMMANDS.items():
            clock, processor = seconds(command, folder, environment)
            missed = "" if processor <= target else "MISSED "
            print(f"  {processor:6.2f} s (target {target:g}, by the clock {clock:.2f}) {missed} dprounds {command}")


if __name__ == "__main__":
    main()
