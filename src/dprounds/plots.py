"""Figures, drawn with Matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dprounds.paper import Figure1Curve, RoundsCurves

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "figure_1", "rounds_figure"]

# Okabe and Ito's palette without its yellow: told apart by every kind of colour vision, and in grey by line style.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


def _canvas(*, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure legible at slide size, not tied to any window."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (Matplotlib is an extra, loaded on use)

    figure = Figure(figsize=(7.0 * columns, 4.6), layout="constrained", dpi=150)
    axes = list(figure.subplots(1, columns, squeeze=False).flat)
    for ax in axes:
        ax.grid(visible=True, alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=11)
    return figure, axes


def figure_1(curves: Sequence[Figure1Curve]) -> Figure:
    """The paper's Figure 1: the optimal conversion, solid, and Theorem 4's bound, dotted."""
    figure, (ax,) = _canvas()
    for curve, color in zip(curves, COLORS, strict=False):
        label = f"order {curve.order:g}, ε = {curve.epsilon:g}"
        ax.plot(curve.delta, curve.optimal, color=color, linewidth=2, label=label)
        ax.plot(curve.delta, curve.theorem_4, color=color, linewidth=2.4, linestyle=(0, (1, 1.6)))
    ax.plot([], [], color="0.35", linewidth=2, label="optimal (Theorem 3)")
    ax.plot([], [], color="0.35", linewidth=2.4, linestyle=(0, (1, 1.6)), label="closed form (Theorem 4)")
    ax.set_xlabel("δ (failure mass)", fontsize=12)
    ax.set_ylabel("γ (RDP budget, nats)", fontsize=12)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 4.0)
    ax.set_title("How much Rényi divergence an (ε, δ) target allows", fontsize=13)
    ax.legend(fontsize=11, frameon=False)
    return figure


def rounds_figure(curves: RoundsCurves) -> Figure:
    """The paper's Figures 2 and 3: ε over rounds, or over epochs where the data are sampled."""
    figure, (ax,) = _canvas()
    rate = curves.sampling_rate
    x = curves.rounds if rate is None else curves.rounds * rate
    for (name, epsilon), color, style in zip(curves.epsilon.items(), COLORS, ("-", "--", "-."), strict=False):
        ax.plot(x, epsilon, color=color, linestyle=style, linewidth=2.2, label=name)
    setting = f"σ = {curves.noise_multiplier:g}, δ = {curves.delta:g}"
    if rate is None:
        ax.set_xlabel("rounds T", fontsize=12)
        ax.set_title(f"Gaussian composition, {setting}", fontsize=13)
    else:
        ax.set_xlabel("epochs (rounds times sampling rate)", fontsize=12)
        ax.set_title(f"Noisy SGD, sampling rate {rate:g}, {setting}", fontsize=13)
    ax.set_ylabel("ε (nats)", fontsize=12)
    ax.set_xlim(left=0.0)
    ax.set_ylim(bottom=0.0)
    ax.legend(fontsize=11, frameon=False)
    return figure
