"""One number for each method, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dprounds._validate import choice, show
from dprounds.errors import ParameterError
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.plots.style import LABEL_FONT, METHOD_STYLES, SMALL_FONT, canvas, number, plain_ticks, set_title

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.figure import Figure

__all__ = ["answers_by_method"]


def answers_by_method(
    answers: Mapping[str, float], *, quantity: str, title: str = "", labels: Mapping[str, str] | None = None
) -> Figure:
    """A bar for each method's answer, such as the noise it needs or the rate it allows, with its number.

    Parameters
    ----------
    answers
        For each method a number in [0, inf]; one that is not finite is written and has no bar.
    quantity
        What the numbers are, with their unit, for the axis.
    title
        What was asked.
    labels
        The numbers as they are to be written, for instance rounded to the side on which they stay true.
    """
    if not answers:
        raise ParameterError("answers must hold one method or more, got none.")
    for value in answers.values():
        if not value >= 0:
            raise ParameterError(f"answers must be in [0, inf], got {show(value)}.")
    figure, ax = canvas()
    methods = [method for method in RUN_METHODS if method in {choice("answers", key, RUN_METHODS) for key in answers}]
    finite = [answers[method] for method in methods if answers[method] < math.inf]
    largest = max(finite, default=1.0) or 1.0
    longest = 0
    for row, method in enumerate(methods):
        value = answers[method]
        width = value if value < math.inf else 0.0
        ax.barh(row, width, height=0.62, color=METHOD_STYLES[method].color)
        text = (labels or {}).get(method, number(value)) if value < math.inf else "no answer (inf)"
        longest = max(longest, len(text))
        ax.annotate(
            text,
            (width, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL_FONT,
        )
    ax.set_yticks(range(len(methods)), methods, fontsize=LABEL_FONT)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.set_xlim(0.0, (1.06 + 0.02 * longest) * largest)  # room for the number to the right of its bar
    unit = plain_ticks(ax.xaxis, largest=largest)
    ax.set_xlabel(f"{quantity} ({unit})" if unit else quantity, fontsize=LABEL_FONT)
    set_title(ax, title)
    return figure
