"""Runs as the contour integral takes them, with a node budget of the test's own and smoothing allowed to all."""

from __future__ import annotations

from dataclasses import replace

from dprounds.accounting.loss_law import LossLaw
from dprounds.mechanisms.composition import Run


def law(run: Run, direction: str = "remove", *, most_nodes: int = 2**14) -> LossLaw:
    return replace(run.law(direction), most_nodes=most_nodes, smoothed=True)


def laws(run: Run, *, most_nodes: int = 2**14) -> list[LossLaw]:
    return [law(run, direction, most_nodes=most_nodes) for direction in run.directions]
