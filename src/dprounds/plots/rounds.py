"""Epsilon over rounds, with the budget and what each method makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dprounds import _validate
from dprounds.curves import RoundsCurve
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.plots.style import (
    LABEL,
    METHOD_STYLES,
    SMALL,
    canvas,
    caption,
    number,
    plain_ticks,
    plot_line,
    power,
    title_and_legend,
)

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["epsilon_over_rounds"]

# Part of the axis that a number written upright takes; nearer ones share a label.
LABEL_WIDTH = 0.04
HALO = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}


def epsilon_over_rounds(
    curve: RoundsCurve, *, epsilon: float | None = None, allowed: Mapping[str, int] | None = None
) -> Figure:
    """Epsilon over rounds by method, with the budget line and the rounds that each method allows.

    Parameters
    ----------
    curve
        From `dprounds.curves.epsilon_over_rounds`.
    epsilon
        The budget in nats, in [0, inf); no line without it.
    allowed
        For each method the most rounds within the budget, as `max_rounds` finds them; marked on the budget line.
    """
    figure, ax = canvas()
    within = {
        _validate.choice("allowed", method, RUN_METHODS): _validate.count("allowed", rounds)
        for method, rounds in (allowed or {}).items()
    }
    for method, epsilons in curve.epsilon.items():
        label = f"{method}: {within[method]:,}" if method in within else method
        plot_line(ax, curve.rounds, epsilons, METHOD_STYLES[method], label)
    right = 1.03 * max([float(curve.rounds[-1]), *map(float, within.values())])
    finite = [epsilons[np.isfinite(epsilons)] for epsilons in curve.epsilon.values()]
    top = 1.05 * max((float(values.max()) for values in finite if values.size), default=1.0) or 1.0
    ax.set_xlim(0.0, max(right, 2.0))
    if epsilon is not None:
        budget = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
        top = max(top, 1.25 * budget)
        ax.axhline(budget, color="0.25", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
        # at the right end, on the side where no curve is
        below = min((float(values[-1]) for values in finite if values.size), default=0.0) > budget
        ax.annotate(
            f"budget ε = {number(budget)}",
            (0.995, budget),
            xycoords=("axes fraction", "data"),
            xytext=(0, -5 if below else 5),
            textcoords="offset points",
            fontsize=SMALL,
            color="0.25",
            ha="right",
            va="top" if below else "bottom",
            bbox=HALO,
        )
        _mark(ax, within, budget)
    ax.set_ylim(0.0, top)
    unit = plain_ticks(ax.xaxis, largest=right, whole=True)
    ax.set_xlabel(f"rounds ({unit})" if unit else "rounds", fontsize=LABEL)
    unit = plain_ticks(ax.yaxis, largest=top)
    ax.set_ylabel(f"ε ({unit} nats)" if unit else "ε (nats)", fontsize=LABEL)
    title = f"{caption(curve.step)}\nδ = {power(curve.delta)}"
    title_and_legend(ax, f"{title}, rounds within the budget:" if within else title)
    return figure


def _mark(ax: Axes, within: Mapping[str, int], budget: float) -> None:
    """A dot for each method on the budget line, and the rounds below it, one label for those that lie together."""
    width = ax.get_xlim()[1]
    groups: list[list[tuple[str, int]]] = []
    for method, rounds in sorted(within.items(), key=lambda pair: pair[1]):
        if groups and rounds - groups[-1][0][1] < LABEL_WIDTH * width:
            groups[-1].append((method, rounds))
        else:
            groups.append([(method, rounds)])
        style = METHOD_STYLES[method]
        ax.plot([rounds], [budget], "o", color=style.color, markersize=4.0 + style.width, zorder=4)
        ax.vlines(rounds, 0.0, budget, color=style.color, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1.5)
    for group in groups:
        least, most = group[0][1], group[-1][1]
        text = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        ax.annotate(
            text,
            (most, 0.0),
            xytext=(2, 6),
            textcoords="offset points",
            rotation=90,
            fontsize=SMALL,
            ha="left",
            va="bottom",
            bbox=HALO,
            zorder=3,
        )
