"""The trade-off of an attacker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprounds.curves import TradeOffCurve
from dprounds.plots.style import LABEL_FONT, METHOD_STYLES, SMALL_FONT, canvas, caption, set_title

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.figure import Figure

__all__ = ["trade_off"]


def trade_off(curve: TradeOffCurve) -> Figure:
    """False negatives over false positives of the best attacker, between guessing and the impossible.

    Parameters
    ----------
    curve
        From `dprounds.curves.trade_off_curve`.
    """
    figure, ax = canvas()
    style = METHOD_STYLES["exact"]
    found = curve.true_positive_rate_at_one_percent
    ax.plot([0.0, 1.0], [1.0, 0.0], color="0.4", linewidth=1.6, linestyle=(0, (4, 3)), label="guessing")
    ax.plot(
        curve.false_positive_rate,
        curve.false_negative_rate,
        color=style.color,
        linewidth=style.width,
        label="the best attacker",
    )
    ax.fill_between(
        curve.false_positive_rate,
        0.0,
        curve.false_negative_rate,
        facecolor="0.9",
        edgecolor="0.75",
        hatch="///",
        linewidth=0.0,
        label="no attacker can be here",
    )
    ax.plot(
        [0.01],
        [1.0 - found],
        "o",
        color="#D55E00",
        markersize=9,
        zorder=4,
        clip_on=False,
        label="at 1 % false positives",
    )
    ax.text(
        0.99,
        0.98,
        f"With 1 % false alarms an attacker finds\nat most {_percent(found)} of the members; guessing, 1 %.\n"
        f"True less false positives: at most {_percent(curve.advantage)}.",
        transform=ax.transAxes,
        fontsize=SMALL_FONT,
        ha="right",
        va="top",
        linespacing=1.4,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2.0},
    )
    ax.set_xlim(-0.01, 1.0)
    ax.set_ylim(0.0, 1.01)
    ax.set_xlabel("false-positive rate (share of strangers taken for members)", fontsize=LABEL_FONT)
    ax.set_ylabel("false-negative rate\n(share of members missed)", fontsize=LABEL_FONT)
    set_title(ax, f"Telling members apart after\n{caption(curve.run)}")
    ax.legend(
        fontsize=SMALL_FONT,
        frameon=True,
        framealpha=0.85,
        edgecolor="none",
        loc="upper right",
        bbox_to_anchor=(1.0, 0.78),
    )
    return figure


def _percent(share: float) -> str:
    """A share as a percentage, rounded up: it is the most that an attacker can do."""
    scaled = 100.0 * share
    digits = 0 if scaled >= 99.95 else 1 if scaled >= 10.0 else 2
    rounded = -(-scaled * 10**digits // 1) / 10**digits
    return f"{rounded:.{digits}f} %"
