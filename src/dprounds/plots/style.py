"""How every picture looks, and how it is written to a file."""

from __future__ import annotations

import re
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import show
from dprounds.errors import ParameterError, UnsupportedError

if TYPE_CHECKING:  # Matplotlib loads where it is used
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "COLORS",
    "LABEL_FONT",
    "METHOD_STYLES",
    "SMALL_FONT",
    "TITLE_FONT",
    "LineStyle",
    "between_rounds",
    "canvas",
    "canvases",
    "caption",
    "nothing_to_draw",
    "number",
    "plain_ticks",
    "plot_line",
    "power",
    "save",
    "set_title",
    "title_and_legend",
]

# Okabe and Ito's palette without its yellow. Every kind of colour vision can distinguish these colours, and in grey the
# line styles differ.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")

# Font sizes in points, for 7 by 4.6 inches: legible where the picture is a third of a slide.
SMALL_FONT, LABEL_FONT, TITLE_FONT = 11, 13, 13


class LineStyle(NamedTuple):
    """How one method's line is drawn."""

    color: str
    dashes: str | tuple[int, tuple[float, ...]]
    width: float


# Each method has one look everywhere. The lines often coincide. Their widths and dashes differ, so that all of them can
# be seen when they lie on each other in the order of `LAYERS`.
METHOD_STYLES = {
    "moments": LineStyle("#D55E00", (0, (4.5, 2.5, 1.2, 2.5)), 2.2),
    "balle": LineStyle("#E69F00", "-", 5.5),
    "closed-form": LineStyle("#CC79A7", (0, (2.2, 1.2)), 3.8),
    "optimal": LineStyle("#0072B2", "-", 1.6),
    "exact": LineStyle("#009E73", "-", 2.8),
}

# From the lowest layer up: each line is wider than those on it, or is seen between their dashes.
LAYERS = ("balle", "exact", "closed-form", "optimal", "moments")

ENDINGS = (".png", ".svg", ".pdf")
# No dates, and no random names of parts: the same picture is the same bytes.
METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}

# A caption of this many letters is as wide as the picture at the title's size. More lines than this would leave too
# little room for the picture.
LONGEST_CAPTION = 64
MOST_CAPTION_LINES = 2
# A title with a line of more letters than this is set smaller.
LONGEST_LARGE_TITLE = 54
# Between two proven points the drawn line has one bend per this much of the logarithm of the rounds.
LOG_ROUNDS_PER_BEND = 0.05


def canvas() -> tuple[Figure, Axes]:
    """A figure legible at slide size, not tied to any window."""
    figure, (ax,) = canvases(1)
    return figure, ax


def canvases(columns: int) -> tuple[Figure, list[Axes]]:
    """A figure of several such pictures side by side."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  (Matplotlib is an extra, loaded on use)
    except ImportError:
        raise UnsupportedError("Pictures need Matplotlib. In a checkout of dprounds: pip install '.[plots]'") from None

    figure = Figure(figsize=(7.0 * columns, 4.6), layout="constrained", dpi=150)
    axes = list(figure.subplots(1, columns, squeeze=False).flat)
    for ax in axes:
        ax.grid(visible=True, alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=SMALL_FONT)
    return figure, axes


def plot_line(ax: Axes, x: ArrayLike, y: ArrayLike, style: LineStyle, label: str) -> Line2D | None:
    """A line in a method's style through its finite points, with dots where they are too few for one; None if none is.

    The points are proven, the line between them is not. One that is not finite was not proven, or not asked for: the
    line begins with the first finite point, and goes on to the next one.
    """
    values = np.asarray(y, dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        return None
    (line,) = ax.plot(
        np.asarray(x, dtype=np.float64)[known],
        values[known],
        color=style.color,
        linestyle=style.dashes,
        linewidth=style.width,
        label=label,
        solid_capstyle="butt",
        marker="o" if known.sum() < 3 else "",
        markersize=5.0 + style.width,
        zorder=2.0 + 0.1 * next((i for i, layer in enumerate(LAYERS) if METHOD_STYLES[layer] == style), 0),
    )
    return line


def between_rounds(rounds: ArrayLike, epsilons: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The finite points of an epsilon over rounds, and the bends of a line through them.

    Epsilon grows about as a power of the rounds, and straight lines between the points of a concave curve lie below
    it. So the line between two points is the power through both, or the straight one where that is higher.
    """
    values = np.asarray(epsilons, dtype=np.float64)
    x, y = np.asarray(rounds, dtype=np.float64)[np.isfinite(values)], values[np.isfinite(values)]
    xs, ys = [x[:1]], [y[:1]]
    for i in range(x.size - 1):
        low, high = x[i : i + 2]
        # no whole number lies between neighbours; without a cost there is no power
        bends = (
            int(np.log(high / low) / LOG_ROUNDS_PER_BEND) if high - low > 1 and low > 0 and min(y[i : i + 2]) > 0 else 0
        )
        if bends:
            at = np.geomspace(low, high, bends + 2)[1:-1]
            share = np.log(at / low) / np.log(high / low)
            power = y[i] * (y[i + 1] / y[i]) ** share
            xs.append(at)
            ys.append(np.maximum(power, np.interp(at, x[i : i + 2], y[i : i + 2])))
        xs.append(x[i + 1 : i + 2])
        ys.append(y[i + 1 : i + 2])
    return np.concatenate(xs), np.concatenate(ys)


def nothing_to_draw(ax: Axes, text: str) -> None:
    """Write `text` in the middle of the picture, which would otherwise be blank."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", fontsize=LABEL_FONT, color="0.25")


def number(value: float) -> str:
    """A number for a label: commas between thousands, four digits if it is not whole."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def power(value: float) -> str:
    """A small number for a label, as people write it: 1e-5."""
    return re.sub(r"e([+-])0*", lambda found: "e" + found.group(1).replace("+", ""), f"{value:g}")


def set_title(ax: Axes, title: str, pad: float | None = None) -> None:
    """The title, set smaller if it has long lines."""
    is_long = max(map(len, title.splitlines()), default=0) > LONGEST_LARGE_TITLE
    ax.set_title(title, fontsize=SMALL_FONT if is_long else TITLE_FONT, pad=pad)


def title_and_legend(ax: Axes, title: str) -> None:
    """The title, and the legend between it and the axes, where no curve can be."""
    _, labels = ax.get_legend_handles_labels()
    if not labels:
        set_title(ax, title)
        return
    longest = max(map(len, labels), default=0)
    # seven inches hold this many columns, at a twelfth of an inch per letter and half an inch for the line
    columns = 3 if longest <= 20 else 2
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        fontsize=SMALL_FONT,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.4,
    )
    rows = -(-len(labels) // columns)
    set_title(ax, title, pad=10.0 + 1.6 * SMALL_FONT * rows)


def plain_ticks(axis: Axis, *, largest: float, whole: bool = False) -> str:
    """Set ticks that can be read whatever their size; return their unit, such as "million", or nothing."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415  (an extra, loaded on use)

    powers = ((1e15, ""), (1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1.0, ""))
    unit, word = next(((power, word) for power, word in powers if largest >= 4.0 * power), (1.0, ""))
    if unit == 1e15:
        return ""  # Matplotlib's own powers of ten
    axis.set_major_locator(MaxNLocator(nbins=7, integer=whole and unit == 1.0, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:,.10g}"))
    return word


def caption(value: object) -> str:
    """What a picture is of, in one line or two: long decimals cut to four digits."""
    text = value if isinstance(value, str) else repr(value)
    text = re.sub(r"\d+\.\d{5,}(?:e[+-]?\d+)?", lambda found: f"{float(found.group()):.4g}", text)
    lines = [""]
    for part in text.split(" + "):
        joined = f"{lines[-1]} + {part}" if lines[-1] else part
        if len(joined) <= LONGEST_CAPTION or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(f"+ {part}")
    if len(lines) > MOST_CAPTION_LINES:
        lines = [*lines[: MOST_CAPTION_LINES - 1], f"{lines[MOST_CAPTION_LINES - 1]} + …"]
    return "\n".join(shorten(line, LONGEST_CAPTION, placeholder=" …") for line in lines)


def save(figure: Figure, path: str | PathLike[str]) -> Path:
    """The path to which the figure was written, as PNG, SVG or PDF by its ending.

    The same figure gives the same bytes. Nothing is written unless all of it can be drawn.

    Parameters
    ----------
    figure
        What a function of this package returned.
    path
        A file name that ends in .png, .svg or .pdf.
    """
    try:
        target = Path(fspath(path))
    except TypeError:
        raise ParameterError(f"path must be a file name, got {show(path)}.") from None
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        raise ParameterError(f"path must end in .png, .svg or .pdf, got {show(str(target))}.")
    from matplotlib import rc_context  # noqa: PLC0415  (Matplotlib is an extra, loaded on use)

    drawn = BytesIO()
    with rc_context({"svg.hashsalt": "dprounds", "pdf.fonttype": 42}):
        figure.savefig(drawn, format=ending[1:], metadata=METADATA[ending])
    try:
        target.write_bytes(drawn.getvalue())
    except (OSError, ValueError) as error:  # ValueError for a name that no file system takes
        reason = getattr(error, "strerror", None) or str(error)
        raise ParameterError(f"path must be a file that can be written, got {show(str(target))}: {reason}.") from None
    return target
