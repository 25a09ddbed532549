"""The paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dprounds.paper import Figure1Curve, RoundsCurves
from dprounds.plots.style import (
    COLORS,
    LABEL_FONT,
    METHOD_STYLES,
    SMALL_FONT,
    TITLE_FONT,
    LineStyle,
    between_rounds,
    canvas,
    canvases,
    plain_ticks,
    plot_line,
    power,
)

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure_1", "rounds_figure", "rounds_figures"]

# The paper's names of the methods, by how they begin.
PAPER_NAMES = {"moments": "moments", "Lemma": "closed-form", "optimal": "optimal", "exact": "exact"}


def figure_1(curves: Sequence[Figure1Curve]) -> Figure:
    """The paper's Figure 1: the optimal conversion, solid, and Theorem 4's bound, dotted."""
    figure, ax = canvas()
    for curve, color in zip(curves, COLORS, strict=False):
        label = f"order {curve.order:g}, ε = {curve.epsilon:g}"
        ax.plot(curve.delta, curve.optimal, color=color, linewidth=2, label=label)
        ax.plot(curve.delta, curve.theorem_4, color=color, linewidth=2.4, linestyle=(0, (1, 1.6)))
    ax.plot([], [], color="0.35", linewidth=2, label="optimal (Theorem 3)")
    ax.plot([], [], color="0.35", linewidth=2.4, linestyle=(0, (1, 1.6)), label="closed form (Theorem 4)")
    ax.set_xlabel("δ (failure mass)", fontsize=LABEL_FONT)
    ax.set_ylabel("γ (RDP budget, nats)", fontsize=LABEL_FONT)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 4.0)
    ax.set_title("How much Rényi divergence an (ε, δ) target allows", fontsize=TITLE_FONT)
    ax.legend(fontsize=SMALL_FONT, frameon=False)
    return figure


def rounds_figure(curves: RoundsCurves) -> Figure:
    """The paper's Figures 2 and 3: ε over rounds, or over epochs where the data are sampled."""
    return rounds_figures([curves])


def rounds_figures(all_curves: Sequence[RoundsCurves]) -> Figure:
    """Several such figures side by side."""
    figure, axes = canvases(len(all_curves))
    for curves, ax in zip(all_curves, axes, strict=True):
        _draw_rounds(curves, ax)
    return figure


def _draw_rounds(curves: RoundsCurves, ax: Axes) -> None:
    rate = curves.sampling_rate
    shown = 1.0 if rate is None else rate
    x = curves.rounds * shown
    for name, epsilon in curves.epsilon.items():
        rounds, values = between_rounds(curves.rounds, epsilon)
        plot_line(ax, rounds * shown, values, _style(name), name)
    setting = f"σ = {curves.noise_multiplier:g}, δ = {power(curves.delta)}"
    if rate is None:
        ax.set_xlabel("rounds T", fontsize=LABEL_FONT)
        ax.set_title(f"Gaussian composition, {setting}", fontsize=TITLE_FONT)
    else:
        ax.set_xlabel("epochs (rounds times sampling rate)", fontsize=LABEL_FONT)
        ax.set_title(f"Noisy SGD, sampling rate {rate:g}, {setting}", fontsize=TITLE_FONT)
    ax.set_ylabel("ε (nats)", fontsize=LABEL_FONT)
    ax.set_xlim(left=0.0)
    ax.set_ylim(bottom=0.0)
    plain_ticks(ax.xaxis, largest=min(float(x[-1]), 1e6))
    ax.legend(fontsize=SMALL_FONT, frameon=False, handlelength=2.8)


def _style(name: str) -> LineStyle:
    """The method's look; the paper's Lemma 2 is the closed form."""
    return METHOD_STYLES[next(method for start, method in PAPER_NAMES.items() if name.startswith(start))]
