"""The joint range of two divergences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dprounds.curves import JointRangePicture
from dprounds.plots.style import LABEL, METHOD_STYLES, SMALL, TITLE, canvas, plain_ticks, plot_line

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.figure import Figure

__all__ = ["joint_range"]

NAMES = {"optimal": "optimal: on the edge"}


def joint_range(picture: JointRangePicture) -> Figure:
    """All values that two divergences can have together, and the bounds on the edge of that region.

    Parameters
    ----------
    picture
        From `dprounds.curves.joint_range_picture` or `dprounds.curves.conversion_picture`.
    """
    figure, ax = canvas()
    greatest = picture.greatest[np.isfinite(picture.greatest)]
    highest = np.append(greatest if greatest.size == picture.greatest.size else picture.least, 0.0)
    top = 1.05 * float(highest[np.isfinite(highest)].max()) or 1.0
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
    ax.set_xlim(0.0, float(picture.value[-1]))
    ax.set_ylim(0.0, top)
    plain_ticks(ax.xaxis, largest=1.0)
    plain_ticks(ax.yaxis, largest=min(top, 1.0))
    ax.set_xlabel(picture.first, fontsize=LABEL)
    ax.set_ylabel(picture.second, fontsize=LABEL)
    ax.set_title("What two divergences can be together", fontsize=TITLE)
    ax.legend(fontsize=SMALL, frameon=True, framealpha=0.85, edgecolor="none", handlelength=2.8)
    return figure
