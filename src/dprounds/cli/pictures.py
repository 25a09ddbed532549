"""Which picture goes with which answer."""

from __future__ import annotations

import math
from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dprounds.errors import UnsupportedError

if TYPE_CHECKING:  # the library and Matplotlib load when a picture is asked for
    from matplotlib.figure import Figure

    from dprounds.mechanisms import Release, Run
    from dprounds.questions import Answers, Setting

__all__ = ["picture"]

# Length of the axis over the largest answer, so that every curve is seen to cross the budget.
AXIS_PER_ANSWER = 1.15
# More points than on the page: a picture on paper is looked at more closely.
CURVE_POINTS = 100
PROFILE_POINTS = 161
# Runs too short to share their work with others take a tenth of a second each: at most this many are computed.
MOST_OWN_RUNS = 10
# Points of each curve of a plan.
EXCESS_POINTS = 12
# Joint ranges are computed for orders up to this, and for deltas from this on.
MOST_DRAWN_ORDER = 1e6
LEAST_DRAWN_DELTA = 1e-249
# Rounds that doubles count one by one.
MOST_DRAWN_ROUNDS = 2**53
# Characters in a line of a title, and the letters by which people know a word.
TITLE_WIDTH = 54
NO_BREAK = "\u00a0"
LETTERS = {"epsilon": "ε", "delta": "δ"}
UNITS = {"epsilon": " (nats)", "rdp": " (nats)", "delta": " (failure mass)"}
# Words that need not be said where the first one is.
IMPLIED = {"sampling_rate": ("batch_size", "dataset_size"), "rounds": ("epochs",)}


def picture(found: Answers, setting: Setting | None, run: Run | None = None, spent: Run | None = None) -> Figure:
    """The picture of an answer: a curve where there is one of the question, else the answers side by side."""
    if found.question == "convert":
        return conversion(found)
    if found.question == "plan":
        return plan(found)
    if setting is not None and found.question == "epsilon":
        whole, each = run or setting.run(), setting.rounds_of_step if run is None else 1
        if len(whole.parts) == 1 and whole.rounds * each > MOST_DRAWN_ROUNDS:
            raise UnsupportedError(
                f"{whole.rounds * each:.0e} rounds are more than the 2^53 that doubles count one by one."
            )
        return cost_so_far(found, whole, each)
    if setting is not None and found.question == "delta":
        return profile(found, run or setting.run())
    # with what was spent before, the curve of the step alone would cross the budget elsewhere
    if setting is not None and found.question == "rounds" and spent is None:
        return allowed_rounds(found, run or setting.step(), setting.rounds_of_step if run is None else 1)
    return by_method(found)


def allowed_rounds(found: Answers, step: Release, rounds_of_step: int = 1) -> Figure:
    """Epsilon over rounds by each method, with the budget and the rounds that each allows; a step may be an epoch."""
    from dprounds import curves, plots

    allowed = {method: int(value) for method, value in _values(found).items()}
    delta, epsilon = float(found.inputs["delta"]), float(found.inputs["epsilon"])
    steps = {rounds // rounds_of_step for rounds in allowed.values()}
    last = min(max(int(AXIS_PER_ANSWER * max(steps)), 2), MOST_DRAWN_ROUNDS // rounds_of_step)
    curve = curves.epsilon_over_rounds(
        step,
        delta=delta,
        last=last,
        points=CURVE_POINTS,
        methods=tuple(allowed),
        including=sorted(steps - {0}),
        own=MOST_OWN_RUNS,
    )
    return plots.epsilon_over_rounds(curve.counted_in_rounds(rounds_of_step), epsilon=epsilon, allowed=allowed)


def cost_so_far(found: Answers, run: Run, rounds_of_step: int = 1) -> Figure:
    """Epsilon over the rounds of a run; of one that has several parts, or too few or many rounds, the answers."""
    from dprounds import curves, plots

    if len(run.parts) != 1 or not 2 <= run.rounds <= MOST_DRAWN_ROUNDS:
        return by_method(found)
    costs = _values(found)
    curve = curves.epsilon_over_rounds(
        run.mechanisms[0],
        delta=float(found.inputs["delta"]),
        last=run.rounds,
        points=CURVE_POINTS,
        methods=tuple(costs),
        including=[run.rounds],
        own=MOST_OWN_RUNS,
    )
    return plots.epsilon_over_rounds(curve.counted_in_rounds(rounds_of_step), costs=costs)


def profile(found: Answers, run: Run) -> Figure:
    """Delta over epsilon by each method, and what each answers at the epsilon that was asked for."""
    from dprounds import curves, plots

    deltas, epsilon = _values(found), float(found.inputs["epsilon"])
    asked = [] if epsilon == math.inf else [epsilon]
    curve = curves.privacy_profile(run, points=PROFILE_POINTS, methods=tuple(deltas), including=asked)
    return plots.privacy_profile(curve, epsilon=epsilon, answers=deltas) if asked else plots.privacy_profile(curve)


def by_method(found: Answers) -> Figure:
    """The answer of each method, side by side."""
    from dprounds import plots

    answers = _values(found)
    labels = {method: found.quantity.text(value) for method, value in answers.items()}
    quantity = found.quantity.title + UNITS.get(found.quantity.name, "")
    return plots.answers_by_method(answers, quantity=quantity, title=_asked(found), labels=labels)


def conversion(found: Answers) -> Figure:
    """The joint range of the two divergences with each method's bound; beyond where it is drawn, the answers."""
    from dprounds import curves, plots
    from dprounds.questions.wording import plain

    best = {name: float(found.best.values[name] or 0) for name in ("order", "rdp", "epsilon", "delta")}
    is_drawn = best["order"] <= MOST_DRAWN_ORDER and max(best["epsilon"], best["rdp"]) < math.inf
    if not (is_drawn and LEAST_DRAWN_DELTA <= best["delta"] < 1):
        return by_method(found)
    picture = curves.conversion_picture(
        order=best["order"], epsilon=best["epsilon"], delta=best["delta"], methods=tuple(_values(found))
    )
    shown = {name: plain(value) for name, value in best.items()}
    shown[found.quantity.name] = found.quantity.text(best[found.quantity.name])
    if found.quantity.name == "epsilon":  # the answer by one number, in the title as on the axis
        picture = replace(picture, first=f"δ at ε = {shown['epsilon']} (failure mass)")
    title = (
        f"({shown['order']}, {shown['rdp']})-RDP is ({shown['epsilon']}, {shown['delta']})-DP by {found.best.method}"
    )
    return plots.joint_range(picture, point=(best["delta"], best["rdp"]), title=title)


def plan(found: Answers) -> Figure:
    """Excess over epochs for several batch sizes, the plan and the habit marked on it."""
    from dprounds import curves, plots

    *rows, best = [row.values for row in found.answers]
    chosen, habit = int(best["batch_size"] or 0), found.inputs.get("habit")
    sizes = curves.compared_sizes(
        [int(row["batch_size"] or 0) for row in rows], [chosen, *([] if habit is None else [int(habit)])]
    )
    today = next((row for row in rows if row["batch_size"] == habit), None)
    curve = curves.excess_over_epochs(
        int(found.inputs["dataset_size"]),
        epsilon=float(found.inputs["epsilon"]),
        delta=float(found.inputs["delta"]),
        batch_sizes=sizes,
        epochs=max(float(row["epochs"] or 0) for row in (best, today or best)),
        sampling=str(found.inputs.get("sampling", "poisson")),
        points=EXCESS_POINTS,
    )
    marked = {"plan": best, **({} if today is None else {"habit": today})}
    return plots.excess_over_epochs(
        curve,
        within=float(found.inputs["within"]),
        marked={name: (float(row["epochs"] or 0), float(row["excess"] or 0)) for name, row in marked.items()},
    )


def _values(found: Answers) -> dict[str, float]:
    """What each method answers, if it does."""
    name = found.quantity.name
    return {row.method: row.values[name] or 0 for row in found.answers if row.error is None}


def _asked(found: Answers) -> str:
    """The question in a few lines, for a title."""
    from dprounds.plots.style import caption

    given: dict[str, Any] = dict(found.inputs)
    target = [f"{letter} = {_short(given.pop(name))}" for name, letter in LETTERS.items() if name in given]
    asked = f"{found.quantity.title} {'within' if len(target) == 2 else 'at'} {', '.join(target)}"
    spent = given.pop("spent", None)
    if "run" in given:
        setting = caption(given["run"])
    else:
        words = ", ".join(word.replace(" ", NO_BREAK) for word in _words(given))
        setting = fill(words, TITLE_WIDTH, max_lines=2, placeholder=" …").replace(NO_BREAK, " ")
    return "\n".join([asked, *([setting] if setting else []), *(["with what was spent before"] if spent else [])])


def _words(given: dict[str, Any]) -> list[str]:
    """A setting as one says it; of a rate and what it follows from the rate, and of rounds and epochs the rounds."""
    for name, implied in IMPLIED.items():
        if name in given:
            given = {other: value for other, value in given.items() if other not in implied}
    words = []
    for name, value in given.items():
        if name == "mechanism":
            words.append(str(value))
        elif name in ("rounds", "epochs"):
            words.append(f"{_short(value)} {name if value != 1 else name[:-1]}")
        else:
            words.append(f"{name.replace('_', ' ')} {_short(value)}")
    return words


def _short(value: object) -> str:
    """A number for a title: five digits of one that is not whole."""
    from dprounds.plots.style import power

    if isinstance(value, str):
        return value
    return power(float(f"{value:.5g}")) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else "…"
