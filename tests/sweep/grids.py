"""Grids that tests share."""

from __future__ import annotations

from pathlib import Path

from dprounds.sweep import Grid, grid_from_toml

# Two milliseconds a row, with bad values among them.
QUICK = """
question = "epsilon"
methods = ["moments", "balle"]
[grid]
mechanism = ["gaussian", "laplace"]
noise_multiplier = [5, 20.0, -1, nan]
delta = [1e-4, 1e-5, 1e-6]
rounds = { from = 1, to = 4, step = 1 }
"""

# Some thirty milliseconds a row, long enough to be stopped midway.
SLOW = """
question = "rounds"
methods = ["moments", "balle"]
[grid]
noise_multiplier = { from = 0.8, to = 1.6, points = 10 }
sampling_rate = { from = 0.001, to = 0.1, points = 4, scale = "log" }
delta = 1e-5
epsilon = [3, 5, 8]
"""


def quick() -> Grid:
    return grid_from_toml(QUICK)


def slow() -> Grid:
    return grid_from_toml(SLOW)


def lines(path: Path) -> int:
    """Complete lines of a file, none if it is not there."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
