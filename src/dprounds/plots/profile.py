"""The privacy profile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dprounds import _validate
from dprounds.curves import ProfileCurve
from dprounds.plots.style import LABEL, METHOD_STYLES, SMALL, TITLE, canvas, caption, plain_ticks, plot_line, power

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.figure import Figure

__all__ = ["privacy_profile"]


def privacy_profile(curve: ProfileCurve, *, delta: float | None = None) -> Figure:
    """Delta over epsilon by method, on a logarithmic axis.

    Parameters
    ----------
    curve
        From `dprounds.curves.privacy_profile`.
    delta
        A failure mass in (0, 1) to be marked by a line; the axis then ends three decades below it.
    """
    figure, ax = canvas()
    ax.set_yscale("log")
    lowest = 1.0
    for method, deltas in curve.delta.items():
        shown = np.where(deltas > 0, deltas, np.nan)  # no logarithm
        plot_line(ax, curve.epsilon, shown, METHOD_STYLES[method], method)
        lowest = float(np.nanmin(np.append(shown, lowest)))
    if delta is not None:
        at = _validate.real("delta", delta, _validate.DELTA)
        lowest = max(lowest, at * 1e-3)
        ax.axhline(at, color="0.25", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
        ax.annotate(
            f"δ = {power(at)}",
            (0.01, at),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            fontsize=SMALL,
            color="0.25",
        )
    largest = max((float(deltas.max()) for deltas in curve.delta.values()), default=1.0)
    if largest > 0 and largest - lowest < 1e-3 * largest:  # all but flat: mass at infinity alone
        lowest = 0.1 * largest
    lowest = min(lowest, 0.1)  # a decade at least, even where nothing is released
    ax.set_ylim(10.0 ** math.floor(math.log10(lowest)), 2.0)
    ax.set_xlim(float(curve.epsilon[0]), max(float(curve.epsilon[-1]), float(curve.epsilon[0]) + 1e-9))
    unit = plain_ticks(ax.xaxis, largest=float(curve.epsilon[-1]))
    ax.set_xlabel(f"ε ({unit} nats)" if unit else "ε (nats)", fontsize=LABEL)
    ax.set_ylabel("δ (failure mass)", fontsize=LABEL)
    ax.set_title(f"Privacy profile of\n{caption(curve.run)}", fontsize=TITLE)
    ax.legend(fontsize=SMALL, frameon=True, framealpha=0.85, edgecolor="none", handlelength=2.8)
    return figure
