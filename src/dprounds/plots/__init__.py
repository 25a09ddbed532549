"""Pictures, drawn with Matplotlib (the extra ``plots``), which loads where it is used.

Each function takes numbers of `dprounds.curves` or `dprounds.paper` and returns a figure; `save` writes it.
"""

from dprounds.plots.answers import answers_by_method
from dprounds.plots.attack import trade_off
from dprounds.plots.excess import excess_over_epochs
from dprounds.plots.paper_figures import figure_1, rounds_figure, rounds_figures
from dprounds.plots.profile import privacy_profile
from dprounds.plots.ranges import joint_range
from dprounds.plots.rounds import epsilon_over_rounds
from dprounds.plots.style import COLORS, METHOD_STYLES, LineStyle, save

__all__ = [
    "COLORS",
    "METHOD_STYLES",
    "LineStyle",
    "answers_by_method",
    "epsilon_over_rounds",
    "excess_over_epochs",
    "figure_1",
    "joint_range",
    "privacy_profile",
    "rounds_figure",
    "rounds_figures",
    "save",
    "trade_off",
]
