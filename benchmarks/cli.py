"""How long the command line keeps a person waiting: whole processes, started warm, by the wall clock."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time

SGD = "--noise-multiplier 1.1 --batch-size 256 --dataset-size 60000"
COMMANDS = {
    "--help": 0.4,
    "rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20": 0.5,
    f"rounds --epsilon 3 --delta 1e-5 {SGD}": 0.5,
    f"epsilon --delta 1e-5 --epochs 60 {SGD}": 0.5,
    f"delta --epsilon 3 --epochs 60 {SGD}": 0.5,
    "noise --epsilon 3 --delta 1e-5 --epochs 60 --batch-size 256 --dataset-size 60000": 0.5,
    "rate --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --rounds 10000": 0.5,
    "convert --order 8 --rdp 0.5 --delta 1e-5": 0.5,
}
REPEATS = 5


def seconds(command: str) -> float:
    """The least of several runs, which others on the machine have held up least."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "dprounds", *shlex.split(command)], check=True, capture_output=True)
        taken.append(time.perf_counter() - start)
    return min(taken)


def main() -> None:
    print("\nThe command line, whole processes")
    for command, target in COMMANDS.items():
        taken = seconds(command)
        print(f"  {taken:6.2f} s (target {target:g}) {'' if taken <= target else 'MISSED '} dprounds {command}")


if __name__ == "__main__":
    main()
