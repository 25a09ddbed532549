"""The excess of the total noise over epochs, for several batch sizes, with the floor and the plans on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dprounds.curves import ExcessCurve
from dprounds.plots.style import COLORS, LABEL_FONT, SMALL_FONT, canvas, number, power, title_and_legend

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.figure import Figure

__all__ = ["excess_over_epochs"]

# Percent: more than this above the floor is cut off, and at least this is shown.
MOST_SHOWN, LEAST_SHOWN = 150.0, 20.0
# Epochs that the axis names: steps times powers of ten.
STEPS, POWERS = (1, 2, 5), range(-6, 16)


def excess_over_epochs(
    curve: ExcessCurve, *, within: float = 0.10, marked: Mapping[str, tuple[float, float]] | None = None
) -> Figure:
    """Excess over epochs by batch size, with the floor at 0 and the part `within` of it that counts as near.

    Parameters
    ----------
    curve
        From `dprounds.curves.excess_over_epochs`.
    within
        What counts as near the floor.
    marked
        Plans to mark: the epochs and the excess of each, by what to write at it.
    """
    from matplotlib.patheffects import withStroke  # noqa: PLC0415  (an extra, loaded on use)
    from matplotlib.ticker import FixedLocator, FuncFormatter  # noqa: PLC0415  (likewise)

    figure, ax = canvas()
    ends = [100.0 * float(excess[len(excess) // 3]) for excess in curve.excess.values()]
    top = min(max(1.4 * max(ends, default=0.0), LEAST_SHOWN, 250.0 * within), MOST_SHOWN)
    for _, excess in (marked or {}).values():
        top = max(top, 115.0 * excess)
    for color, (size, at) in zip(COLORS * 3, curve.epochs.items(), strict=False):
        percent = 100.0 * curve.excess[size]
        if (percent < top).any():  # else there is nothing to see of it
            ax.plot(at, percent, color=color, linewidth=2.0, marker=".", label=f"batches of {size:,}")
    ax.axhspan(0.0, 100.0 * within, color="0.85", zorder=0, linewidth=0)
    ax.annotate(
        f"within {100 * within:g} %\nof the floor",
        (1.0, 100.0 * within),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=SMALL_FONT,
        color="0.25",
        va="center",
        annotation_clip=False,
    )
    for label, (epochs, excess) in (marked or {}).items():
        ax.plot(
            [epochs],
            [100.0 * excess],
            "o",
            color="black",
            markersize=9,
            fillstyle="none",
            markeredgewidth=2.0,
            zorder=4,
        )
        note = ax.annotate(
            label, (epochs, 100.0 * excess), xytext=(9, 9), textcoords="offset points", fontsize=SMALL_FONT, zorder=5
        )
        note.set_path_effects([withStroke(linewidth=3.0, foreground="white")])  # a curve may pass behind it
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator([step * 10.0**power for power in POWERS for step in STEPS]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ax.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    ax.set_ylim(0.0, top)
    ax.set_xlabel("epochs", fontsize=LABEL_FONT)
    ax.set_ylabel("total noise above the floor (%)", fontsize=LABEL_FONT)
    title = f"{number(curve.dataset_size)} records, ε = {number(curve.epsilon)}, δ = {power(curve.delta)}"
    title_and_legend(ax, title if curve.sampling == "poisson" else f"{title}, {curve.sampling}")
    return figure
