"""Which picture goes with which answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the library and Matplotlib load when a picture is asked for
    from matplotlib.figure import Figure

    from dprounds.mechanisms import Release, Run
    from dprounds.questions import Answers

__all__ = ["allowed_rounds", "by_method", "conversion", "cost_so_far", "profile"]

# A little more than the last answer, so that every curve is seen to cross the budget.
BEYOND = 1.15
# Joint ranges are computed for orders up to this.
MOST_DRAWN_ORDER = 1e6


def allowed_rounds(found: Answers, step: Release) -> Figure:
    """Epsilon over rounds by each method, with the budget and the rounds that each allows."""
    from dprounds import curves, plots

    allowed = {row.method: int(row.values["rounds"] or 0) for row in found.answers if row.error is None}
    delta, epsilon = float(found.inputs["delta"]), float(found.inputs["epsilon"])
    last = max(int(BEYOND * max(allowed.values())), 2)
    curve = curves.epsilon_over_rounds(step, delta=delta, last=last, methods=tuple(allowed))
    return plots.epsilon_over_rounds(curve, epsilon=epsilon, allowed=allowed)


def cost_so_far(found: Answers, run: Run) -> Figure:
    """Epsilon over the rounds of a run; of a run of several parts, over repetitions of the whole."""
    from dprounds import curves, plots

    step, last = (run.mechanisms[0], run.rounds) if len(run.parts) == 1 else (run, 1)
    methods = tuple(row.method for row in found.answers if row.error is None)
    curve = curves.epsilon_over_rounds(step, delta=float(found.inputs["delta"]), last=max(last, 1), methods=methods)
    return plots.epsilon_over_rounds(curve)


def profile(found: Answers, run: Run) -> Figure:
    """Delta over epsilon by each method."""
    from dprounds import curves, plots

    methods = tuple(row.method for row in found.answers if row.error is None)
    return plots.privacy_profile(curves.privacy_profile(run, methods=methods))


def by_method(found: Answers) -> Figure:
    """The answer of each method, side by side."""
    from dprounds import plots

    name = found.quantity.name
    answers = {row.method: float(row.values[name] or 0) for row in found.answers if row.error is None}
    labels = {method: found.quantity.text(value) for method, value in answers.items()}
    return plots.answers_by_method(
        answers, quantity=found.quantity.title, title=f"dprounds {found.question}", labels=labels
    )


def conversion(found: Answers) -> Figure:
    """The joint range of the two divergences with each method's bound; beyond where it is drawn, the answers."""
    from dprounds import curves, plots

    order, epsilon = float(found.best.values["order"] or 0), float(found.best.values["epsilon"] or 0)
    if not (order <= MOST_DRAWN_ORDER and epsilon < math.inf):
        return by_method(found)
    return plots.joint_range(curves.conversion_picture(order=order, epsilon=epsilon))
