"""Epsilon over rounds, with the budget and what each method makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dprounds import _validate
from dprounds.curves import RoundsCurve
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.plots.style import (
    LABEL_FONT,
    METHOD_STYLES,
    SMALL_FONT,
    between_rounds,
    canvas,
    caption,
    nothing_to_draw,
    number,
    plain_ticks,
    plot_line,
    power,
    title_and_legend,
)
from dprounds.questions.wording import EPSILON

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["epsilon_over_rounds"]

# Part of the axis that an upright number takes. Numbers that are nearer than that share a label.
LABEL_WIDTH = 0.04
# Below this part of the height, a centred label at the right would reach the numbers of the other axis.
LOW_BUDGET_HEIGHT = 0.06
HALO = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}


def epsilon_over_rounds(
    curve: RoundsCurve,
    *,
    epsilon: float | None = None,
    allowed: Mapping[str, int] | None = None,
    costs: Mapping[str, float] | None = None,
) -> Figure:
    """Epsilon over rounds by method, with the budget line and the rounds that each method allows.

    The points are proven. Between two of them the line is the power of the rounds through both.

    Parameters
    ----------
    curve
        From `dprounds.curves.epsilon_over_rounds`.
    epsilon
        The budget in nats, in [0, inf); no line without it.
    allowed
        For each method the most rounds within the budget, as `max_rounds` finds them; marked on the budget line.
    costs
        For each method epsilon after the last of the rounds, in [0, inf]; marked at the end of its line.
    """
    figure, ax = canvas()
    within = {
        _validate.choice("allowed", method, RUN_METHODS): _validate.count("allowed", rounds)
        for method, rounds in (allowed or {}).items()
    }
    after = {
        _validate.choice("costs", method, RUN_METHODS): _validate.real("costs", cost, _validate.EPSILON)
        for method, cost in (costs or {}).items()
    }
    last = int(curve.rounds[-1])
    for method, epsilons in curve.epsilon.items():
        label = method
        if method in within:
            label = f"{method}: {within[method]:,}"
        elif method in after:
            label = f"{method}: {EPSILON.text(after[method])}"
        x, y = between_rounds(curve.rounds, epsilons)
        if (np.isfinite(epsilons)).sum() < 3:  # one or two points are drawn as dots, which a bent line would hide
            x, y = np.asarray(curve.rounds), epsilons
        plot_line(ax, x, y, METHOD_STYLES[method], label)
    right = 1.03 * max([float(last), *map(float, within.values())])
    drawn = [value for epsilons in curve.epsilon.values() for value in epsilons.tolist() if value < math.inf]
    drawn += [cost for cost in after.values() if cost < math.inf]
    top = 1.05 * max(drawn, default=1.0) or 1.0
    ax.set_xlim(0.0, max(right, 2.0))
    if epsilon is not None:
        budget = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
        top = max(top, 1.25 * budget)
        ax.axhline(budget, color="0.25", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
        # to the right of the axes, where no curve is
        ax.annotate(
            f"budget\nε = {number(budget)}",
            (1.0, budget),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=SMALL_FONT,
            color="0.25",
            ha="left",
            va="center" if budget > LOW_BUDGET_HEIGHT * top else "bottom",
            annotation_clip=False,
        )
        _mark(ax, within, budget)
    for method, cost in after.items():
        if cost < math.inf:
            _dot(ax, method, last, cost)
    if not drawn:
        nothing_to_draw(ax, "No ε is proven here.")
    ax.set_ylim(0.0, top)
    unit = plain_ticks(ax.xaxis, largest=right, whole=True)
    ax.set_xlabel(f"rounds ({unit})" if unit else "rounds", fontsize=LABEL_FONT)
    unit = plain_ticks(ax.yaxis, largest=top)
    ax.set_ylabel(f"ε ({unit} nats)" if unit else "ε (nats)", fontsize=LABEL_FONT)
    title = f"{caption(curve.step)}\nδ = {power(curve.delta)}"
    if within:
        title += ", rounds within the budget:"
    elif after and drawn:
        title += f", ε after {last:,} round{'' if last == 1 else 's'}:"
    title_and_legend(ax, title)
    return figure


def _dot(ax: Axes, method: str, rounds: float, epsilon: float) -> None:
    """An answer; one at the edge is drawn whole."""
    style = METHOD_STYLES[method]
    size = 4.0 + style.width
    ax.plot([rounds], [epsilon], "o", color=style.color, markersize=size, zorder=4, clip_on=False)


def _mark(ax: Axes, within: Mapping[str, int], budget: float) -> None:
    """A dot for each method on the budget line, and the rounds below it, one label for those that lie together."""
    width = ax.get_xlim()[1]
    groups: list[list[tuple[str, int]]] = []
    for method, rounds in sorted(within.items(), key=lambda pair: pair[1]):
        if groups and rounds - groups[-1][0][1] < LABEL_WIDTH * width:
            groups[-1].append((method, rounds))
        else:
            groups.append([(method, rounds)])
        _dot(ax, method, rounds, budget)
        color = METHOD_STYLES[method].color
        ax.vlines(rounds, 0.0, budget, color=color, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1.5)
    for group in groups:
        least, most = group[0][1], group[-1][1]
        text = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        ax.annotate(
            text,
            (most, 0.0),
            xytext=(4 if most else 8, 6),
            textcoords="offset points",
            rotation=90,
            fontsize=SMALL_FONT,
            ha="left",
            va="bottom",
            bbox=HALO,
            zorder=3,
        )
