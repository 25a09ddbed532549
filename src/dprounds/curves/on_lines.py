"""Exact epsilons at many numbers of rounds, and exact deltas at many epsilons, from a few lines.

K of n equal rounds is n times that of one, so a line made for one number of rounds brackets delta for others as well:
right for all of them, and tightly from a third to three times as many (docs/theory/accounting.md has the bounds).

A run too short for any line answers by itself, on a lattice. That takes a tenth of a second, so few points ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.line import Line
from dprounds.accounting.loss_law import LossLaw, line_near
from dprounds.accounting.saddle import saddle_at_delta, saddle_at_epsilon
from dprounds.curves.spacing import evenly, some_rounds
from dprounds.errors import NumericalError
from dprounds.mechanisms.base import Release
from dprounds.mechanisms.composition import Run
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["exact_deltas", "exact_epsilons", "far_deltas"]

Array = NDArray[np.float64]

# A line is made for this part of the most rounds that still wait. Upward it serves to about three times its own.
REACH = 2.5
# For fewer rounds than this part of its own it is not even tried.
TOO_FEW = 10.0
# The sum's epsilon is raised by the first of these parts of itself that the line proves; the last is what one may see.
RAISES = np.array([1e-6, 1e-5, 1e-4, 5e-4])
# Nodes that a picture's line may have. A sixteenth of what a number to publish may cost: where atoms make K fall slowly
# the bracket is wider for it, by less than a raise.
MOST_NODES = 2**12
MOST_STEPS = 40
# A delta this close to what its line proves from below is drawn; for others a line of their own is made.
WIDEST = 1e-3
# Epsilons on either side that a line is tried for.
NEIGHBOURS = 24
# Runs of atoms that no line resolves, of which so many answer by themselves in any curve, a tenth of a second each.
ATOMS = 4
# Epsilons of a profile that ask the run one by one, where not even a row of lattices serves for all of them.
FEW = 16
# A row that is so much above what the run says by itself does not.
POOR = 1.01
# Epsilons far beyond the picture that may ask the run, half a second each.
FAR = 3


def exact_epsilons(
    step: Release,
    rounds: Sequence[int],
    *,
    delta: float,
    own: int = 0,
    always: Collection[int] = (),
    shortest: int = 1,
) -> Array:
    """Exact epsilon at `delta` for each of increasing numbers of rounds; inf where none is proven, or was asked for.

    Where no line can be made, about `own` of the runs of `shortest` rounds or more are asked by themselves, and
    those of `always`.

    Guarantee
    ---------
    Each is an epsilon at which the upper bound of delta was computed and is at most `delta`, or inf. Errs upward: on a
    line by less than a thousandth of itself, since at that distance below it the lower bound of delta is at least
    `delta`; else as the run does before it looks at the best order.
    """
    found = np.full(len(rounds), math.inf)
    waiting = list(range(len(rounds)))
    # a sum of responses, or one with a mass at infinity, takes a few milliseconds: all of them
    most = ATOMS + own if step._has_cells and step._response_loss is None else len(rounds)
    start, is_last_line = 1.0, False
    while waiting and step.infinite_mass == 0:  # a mass at infinity is not proportional to the rounds
        made = waiting[-1] if is_last_line else next(i for i in waiting if rounds[i] * REACH >= rounds[waiting[-1]])
        try:
            served, start = _by_lines(step, rounds[made], [rounds[i] for i in waiting], delta, start)
        except NumericalError:
            if made != waiting[-1] and (own or always):
                is_last_line = True  # with more rounds K falls faster; another line costs less than a run
                continue
            most = own  # K does not fall fast enough for a sum, and with fewer rounds it falls less
            break
        if rounds[made] not in served:
            break  # atoms that no line resolves
        for i in waiting:
            found[i] = served.get(rounds[i], math.inf)
        waiting = [i for i in waiting if rounds[i] not in served]
    chosen = {*always, *some_rounds([rounds[i] for i in waiting if rounds[i] >= shortest], most)}
    for i in (i for i in waiting if rounds[i] in chosen):
        with suppress(NumericalError):
            found[i] = _own_epsilon(step * rounds[i], delta)
    return found


def _own_epsilon(run: Run, delta: float) -> float:
    """The exact epsilon of one run, without what the best order may prove below it: a curve knows that already."""
    if not run.infinite_mass < delta:
        return run.epsilon(delta=delta, method="exact")
    return run._exact_epsilon(delta).upper


def exact_deltas(run: Run, epsilons: Array) -> tuple[Array, bool]:
    """Exact delta at each of increasing epsilons, and whether they are tight.

    Errs upward. Tight deltas are within `WIDEST` of the truth, or are the run's own profile. Others may be further
    above it, or inf where none is proven; a best order may then prove less.
    """
    if run._responses() is not None:  # few randomized responses have a short sum of their own
        return np.asarray(run.profile(epsilons, method="exact")), True
    try:
        deltas, is_wide = _deltas_on_lines(run, epsilons)
    except NumericalError:
        return _own_deltas(run, epsilons)
    if is_wide.any() and run._is_carried:  # atoms, of which a lattice may tell more
        with suppress(NumericalError):
            deltas[is_wide] = np.minimum(deltas[is_wide], run._lattice_profile(epsilons[is_wide]))
    return deltas, not is_wide.any()


def _deltas_on_lines(run: Run, epsilons: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Delta at each of increasing epsilons from above, and whether it may be further above than `WIDEST`."""
    deltas = np.zeros_like(epsilons)
    least = np.zeros_like(epsilons)
    for direction in run.directions:
        law = _cheap(run.law(direction))
        waiting = np.flatnonzero(epsilons < law.max_loss)
        start = 1.0
        while waiting.size:
            middle = waiting.size // 2
            epsilon = float(epsilons[waiting[middle]])
            saddle = saddle_at_epsilon(law.log_moment, epsilon, start=start)
            start = saddle.t
            line = line_near(law, saddle, epsilon=epsilon, log_delta=saddle.log_delta(epsilon))
            near = waiting[max(middle - NEIGHBOURS, 0) : middle + NEIGHBOURS + 1]
            lower, upper = line.bracket(epsilons[near])
            served = (upper - lower <= WIDEST * upper) | (near == waiting[middle])
            deltas[near[served]] = np.maximum(deltas[near[served]], upper[served])
            least[near[served]] = np.maximum(least[near[served]], lower[served])
            waiting = np.setdiff1d(waiting, near[served], assume_unique=True)
    is_wide = deltas - least > WIDEST * deltas
    if run.infinite_mass:
        # a hair for the sum, as in the exact accountant
        deltas = np.minimum((run.infinite_mass + deltas) * (1.0 + 2.0 * UNIT_ROUNDOFF), 1.0)
    return deltas, is_wide


def _own_deltas(run: Run, epsilons: Array) -> tuple[Array, bool]:
    """Delta as the run itself answers, at every epsilon if its row is tight, else at a few and inf elsewhere."""
    found = np.full_like(epsilons, math.inf)

    def ask(i: int) -> float:
        with suppress(NumericalError):
            found[i] = run.delta(epsilon=float(epsilons[i]), method="exact")
        return float(found[i])

    with suppress(NumericalError):
        row = np.asarray(run.profile(epsilons, method="exact"))
        # a lattice made for a larger epsilon may serve for a smaller one, and be far above it
        if all(row[i] <= POOR * ask(i) for i in {0, epsilons.size // 4}):
            return np.asarray(np.minimum(row, found)), True
    for i in evenly(range(epsilons.size), FEW):
        ask(i)
    return found, False


def far_deltas(run: Run, epsilons: Array) -> Array:
    """Exact delta at increasing epsilons far beyond what a picture shows of itself; inf where none is proven.

    Each is on a line, or by the run itself for the first few that have none.
    """
    found = np.full_like(epsilons, math.inf)
    asked = 0
    for i in range(epsilons.size):
        try:
            found[i] = _deltas_on_lines(run, epsilons[i : i + 1])[0][0]
        except NumericalError:
            asked += 1
            if asked <= FAR:
                with suppress(NumericalError):
                    found[i] = run.delta(epsilon=float(epsilons[i]), method="exact")
    return found


def _cheap(law: LossLaw) -> LossLaw:
    """The law with no more nodes than a picture needs."""
    return replace(law, most_nodes=min(law.most_nodes, MOST_NODES))


def _by_lines(
    step: Release, made_for: int, rounds: Sequence[int], delta: float, start: float
) -> tuple[dict[int, float], float]:
    """The epsilons of those rounds for which one line in each direction is tight, and the t of the last line."""
    run = step * made_for
    lines: list[Line] = []
    guess = 0.0
    for direction in run.directions:
        law = _cheap(run.law(direction))
        if not law.max_loss > 0:
            return {}, start
        try:
            saddle = saddle_at_delta(law.log_moment, math.log(delta), start=start)
            if not 0 < saddle.epsilon < law.max_loss:
                return {}, start
            line = line_near(law, saddle, epsilon=saddle.epsilon, log_delta=math.log(delta))
            lines.append(line)
        except NumericalError:
            if not law.smoothed:
                raise
            return {}, start  # more nodes may do
        start, guess = saddle.t, max(guess, saddle.epsilon)
    answers = {}
    for n in rounds:
        multiple = n / made_for
        if multiple * TOO_FEW < 1.0:
            continue
        # epsilon grows about as the root of the rounds
        answer = _in_all_directions([line * multiple for line in lines], delta, guess * math.sqrt(multiple))
        if answer < math.inf:
            answers[n] = answer
    return answers, start


def _in_all_directions(lines: Sequence[Line], delta: float, guess: float) -> float:
    """An epsilon at which every line proves `delta`; inf where one of them is not tight."""
    answer = 0.0
    for line in lines:
        if answer > 0 and _upper(line, answer) <= delta:
            continue  # the other direction is dearer
        answer = max(answer, _tight(line, delta, guess))
        if answer == math.inf:
            break
    return answer


def _upper(line: Line, epsilon: float) -> float:
    try:
        return float(line.bracket(np.array([epsilon])).upper[0])
    except NumericalError:
        return 1.0


def _tight(line: Line, delta: float, guess: float) -> float:
    """Just above the epsilon at which the line's delta is `delta`, if it proves that; inf if not."""
    epsilon = guess
    for _ in range(MOST_STEPS):
        value, slope = line.value_and_slope(epsilon)
        if not (value > 0 and slope < 0):
            return math.inf
        moved = (math.log(value) - math.log(delta)) * value / -slope
        epsilon += moved
        if not epsilon < math.inf:
            return math.inf
        if epsilon <= 0:  # also where delta is met at 0 already
            return 0.0 if _upper(line, 0.0) <= delta else math.inf
        if abs(moved) <= 1e-9 * epsilon:
            break
    largest = float(RAISES[-1])
    try:
        brackets = line.bracket(epsilon * np.append(1.0 - largest, 1.0 + RAISES))
    except NumericalError:
        return math.inf
    proven = np.flatnonzero(brackets.upper[1:] <= delta)
    tight = bool(brackets.lower[0] >= delta) and proven.size > 0
    return float(epsilon * (1.0 + RAISES[proven[0]])) if tight else math.inf
