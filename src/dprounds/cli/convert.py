"""``dprounds convert``: what does a Rényi guarantee mean?"""

from __future__ import annotations

from typing import Annotated

import typer

from dprounds.cli import options as o
from dprounds.cli.output import show
from dprounds.cli.pictures import conversion

__all__ = ["convert"]


def convert(
    *,
    order: Annotated[
        float | None,
        typer.Option("--order", help="Required: Rényi order α > 1; inf is one.", parser=o.number, metavar="NUMBER"),
    ] = None,
    rdp: Annotated[
        float | None, typer.Option("--rdp", help="Rényi bound γ, in nats.", parser=o.number, metavar="NUMBER")
    ] = None,
    epsilon: o.SomeEpsilon = None,
    delta: o.SomeDelta = None,
    method: o.ConversionMethod = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """What does a Rényi guarantee mean in (ε, δ)? Give two of --rdp, --epsilon and --delta.

    Example: dprounds convert --order 8 --rdp 0.5 --delta 1e-5
    """
    from dprounds import questions

    found = questions.convert(order=order, rdp=rdp, epsilon=epsilon, delta=delta, method=method)
    show(found, json=json, plot=plot, draw=lambda: conversion(found))
