"""The joint range of two divergences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dprounds import _validate
from dprounds.curves import JointRangePicture
from dprounds.plots.style import (
    LABEL_FONT,
    METHOD_STYLES,
    SMALL_FONT,
    canvas,
    number,
    plain_ticks,
    plot_line,
    power,
    set_title,
)

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["joint_range"]

NAMES = {"optimal": "optimal: on the edge"}
# A label is put to the left of its point from this part of the width on, and above it up to this part of the height.
LABEL_LEFT_FROM_WIDTH, LABEL_ABOVE_TO_HEIGHT = 0.35, 0.5


def joint_range(
    picture: JointRangePicture, *, point: tuple[float, float] | None = None, title: str | None = None
) -> Figure:
    """All values that two divergences can have together, and the bounds on the edge of that region.

    The points are proven; the lines between them are not. The first axis is logarithmic if it begins above 0.

    Parameters
    ----------
    picture
        From `dprounds.curves.joint_range_picture` or `dprounds.curves.conversion_picture`.
    point
        Values of both, each in [0, inf), to be marked.
    title
        What is to be seen.
    """
    figure, ax = canvas()
    marked = None if point is None else tuple(_validate.real("point", v, _validate.FINITE_EPSILON) for v in point)
    is_logarithmic = bool(picture.value[0] > 0)
    greatest = picture.greatest[np.isfinite(picture.greatest)]
    highest = np.append(greatest if greatest.size == picture.greatest.size else picture.least, 0.0)
    top = 1.05 * float(highest[np.isfinite(highest)].max()) or 1.0
    if marked is not None:
        top = max(top, 1.05 * marked[1])
    ax.fill_between(
        picture.value,
        np.minimum(picture.least, top),
        np.minimum(picture.greatest, top),
        color="#56B4E9",
        alpha=0.22,
        linewidth=0.0,
        label="every pair of distributions",
    )
    for edge, label in ((picture.least, None if picture.bounds else "its edge"), (picture.greatest, None)):
        shown = np.where(edge <= top, edge, np.nan)
        ax.plot(picture.value, shown, color="black", linewidth=0.8 if picture.bounds else 1.6, label=label, zorder=1.5)
    for method, bound in picture.bounds.items():
        plot_line(ax, picture.value, bound, METHOD_STYLES[method], NAMES.get(method, method))
    ax.set_xlim(float(picture.value[0]), 1.0 if is_logarithmic else float(picture.value[-1]))
    ax.set_ylim(0.0, top)
    if is_logarithmic:
        ax.set_xscale("log")
    else:
        plain_ticks(ax.xaxis, largest=1.0)
    plain_ticks(ax.yaxis, largest=min(top, 1.0))
    if marked is not None:
        _mark(ax, *marked)
    ax.set_xlabel(picture.first, fontsize=LABEL_FONT)
    ax.set_ylabel(picture.second, fontsize=LABEL_FONT)
    set_title(ax, title or "What two divergences can be together")
    ax.legend(fontsize=SMALL_FONT, frameon=True, framealpha=0.85, edgecolor="none", handlelength=2.8, loc="upper left")
    return figure


def _mark(ax: Axes, x: float, y: float) -> None:
    """A dot, and lines from it to both axes."""
    ax.vlines(x, 0.0, y, color="0.25", linewidth=1.2, linestyle=(0, (4, 3)), zorder=3)
    ax.hlines(y, ax.get_xlim()[0], x, color="0.25", linewidth=1.2, linestyle=(0, (4, 3)), zorder=3)
    ax.plot([x], [y], "o", color="black", markersize=8.0, zorder=4, clip_on=False)
    # there is no bound above a point and to its left; but the left end has no room, and the legend is at the top
    left, height = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    is_above = height < LABEL_ABOVE_TO_HEIGHT
    is_left = left > LABEL_LEFT_FROM_WIDTH
    ax.annotate(
        f"δ = {power(x)}, {number(y)} nats",
        (x, y),
        xytext=(-9 if is_left else 9, 6 if is_above else -6),
        textcoords="offset points",
        ha="right" if is_left else "left",
        va="bottom" if is_above else "top",
        fontsize=SMALL_FONT,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
        zorder=3.5,
    )
