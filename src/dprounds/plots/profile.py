"""The privacy profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dprounds import _validate
from dprounds.curves import ProfileCurve
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.plots.style import (
    LABEL_FONT,
    METHOD_STYLES,
    SMALL_FONT,
    canvas,
    caption,
    nothing_to_draw,
    number,
    plain_ticks,
    plot_line,
    power,
    set_title,
    title_and_legend,
)
from dprounds.questions.wording import DELTA

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["privacy_profile"]

# The smallest double that is not 0 is 5e-324; an axis may end there.
LEAST_DECADE_EXPONENT = -323
# The axis of delta ends here unless an answer is smaller.
USUAL_LEAST_DELTA = 1e-10


def privacy_profile(
    curve: ProfileCurve,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    answers: Mapping[str, float] | None = None,
) -> Figure:
    """Delta over epsilon by method, on a logarithmic axis. The points are proven; the lines between them are not.

    Parameters
    ----------
    curve
        From `dprounds.curves.privacy_profile`.
    delta
        A failure mass in (0, 1) to be marked by a line; the axis then ends three decades below it.
    epsilon
        In [0, inf), to be marked by a line; the axis reaches to it.
    answers
        For each method its delta at `epsilon`, in [0, 1]; marked on that line, and the axis ends below them.
    """
    figure, ax = canvas()
    ax.set_yscale("log")
    asked = None if epsilon is None else _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
    found = {
        _validate.choice("answers", method, RUN_METHODS): _validate.real(
            "answers", value, _validate.Interval.parse("[0, 1]")
        )
        for method, value in (answers or {}).items()
    }
    lowest, is_blank = 1.0, True
    for method, deltas in curve.delta.items():
        shown = np.where((deltas > 0) & (deltas < math.inf), deltas, np.nan)  # zero has no logarithm
        label = f"{method}: {DELTA.text(found[method])}" if method in found else method
        is_blank &= plot_line(ax, curve.epsilon, shown, METHOD_STYLES[method], label) is None
        lowest = float(np.nanmin(np.append(shown, lowest)))
    if delta is not None:
        at = _validate.real("delta", delta, _validate.DELTA)
        lowest = max(lowest, at * 1e-3)
        _delta_line(ax, at)
    if any(found.values()):  # the axis ends at the usual delta, or a decade below the least answer
        least = 0.1 * min(value for value in found.values() if value > 0)
        lowest = max(lowest, min(least, USUAL_LEAST_DELTA), 10.0**LEAST_DECADE_EXPONENT)
    if is_blank:
        nothing_to_draw(ax, "δ is 0 at every ε here." if curve.delta else "No δ is proven here.")
    largest = max((float(deltas[deltas < math.inf].max(initial=0.0)) for deltas in curve.delta.values()), default=1.0)
    if largest > 0 and largest - lowest < 1e-3 * largest:  # nearly flat: mass at infinity alone
        lowest = 0.1 * largest
    lowest = min(lowest, 0.1)  # at least one decade, even where nothing is released
    bottom = 10.0 ** max(math.floor(math.log10(lowest)), LEAST_DECADE_EXPONENT)
    ax.set_ylim(bottom, 2.0)
    last = max([float(curve.epsilon[-1]), float(curve.epsilon[0]) + 1e-9, *([] if asked is None else [asked])])
    ax.set_xlim(float(curve.epsilon[0]), last)
    if asked is not None:
        ax.axvline(asked, color="0.25", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
        for method, value in found.items():
            style = METHOD_STYLES[method]
            # a delta of 0 lies below any decade
            height, marker = (value, "o") if value > bottom else (bottom, "v")
            ax.plot([asked], [height], marker, color=style.color, markersize=4.0 + style.width, zorder=4, clip_on=False)
    unit = plain_ticks(ax.xaxis, largest=last)
    ax.set_xlabel(f"ε ({unit} nats)" if unit else "ε (nats)", fontsize=LABEL_FONT)
    ax.set_ylabel("δ (failure mass)", fontsize=LABEL_FONT)
    title = f"Privacy profile of\n{caption(curve.run)}"
    if asked is not None and found and not is_blank:
        title_and_legend(ax, f"{title}\nδ at ε = {number(asked)}:")
    else:
        set_title(ax, title)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(fontsize=SMALL_FONT, frameon=True, framealpha=0.85, edgecolor="none", handlelength=2.8)
    return figure


def _delta_line(ax: Axes, delta: float) -> None:
    ax.axhline(delta, color="0.25", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
    ax.annotate(
        f"δ = {power(delta)}",
        (0.01, delta),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=SMALL_FONT,
        color="0.25",
    )
