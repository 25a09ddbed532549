"""Exact epsilons at many numbers of rounds, and exact deltas at many epsilons, from a few lines.

K of n equal rounds is n times that of one, so a line made for one number of rounds brackets delta for others as well:
right for all of them, and tightly from a third to three times as many (docs/theory/accounting.md has the bounds).

A run too short for any line answers by itself, on a lattice. That takes a tenth of a second, so few points ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.profile import Profile
from dprounds.accounting.root import root_on
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways.place import line_near, line_with_nodes_of, saddle_at_delta
from dprounds.curves.spacing import some_rounds
from dprounds.errors import NumericalError
from dprounds.mechanisms.base import Release, Run

__all__ = ["exact_deltas", "exact_epsilons"]

Array = NDArray[np.float64]

# All of these tune speed.
# A line is made for this part of the most rounds that still wait. Upward it serves to about three times its own rounds.
LINE_SPREAD = 2.5
# For fewer rounds than this part of its own a line is not even tried.
FEWEST_PART = 10.0
# A point of a curve may be this part above the truth; that is what one may see.
WIDEST = 1e-3
# The sums of one epsilon serve for others where they bracket delta to this part of it.
SHARED = 0.1 * WIDEST
# How far around a root delta is looked at, relative to epsilon: where the line is tight the first distance will do.
DISTANCES = (1e-8, 1e-5, 0.4 * WIDEST)
# Nodes that a picture's line may have. A sixteenth of what a number to publish may cost: where atoms make K fall slowly
# the bracket is wider for it, by less than `WIDEST`.
MOST_NODES = 2**12
# The part of epsilon that a lattice of a bound may cost in a picture. It costs less than `WIDEST` of delta, since the
# logarithm of that falls by a dozen or two there.
PICTURED = 3e-5
# Bounds of fewer rounds than the second of these, and of no fewer than the first, take coarser lattices in a picture.
FEWEST_ROUNDS, FEW_ROUNDS = 4, 64
# Of the runs that no line resolves, this many answer by themselves in any curve, a tenth of a second each.
FEW_OWN = 4
# The same where the integral of a profile answers, a fiftieth of a second each.
MOST_INTEGRALS = 16


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
    laws = (step * 1).laws.values()
    waiting = list(range(len(rounds)))
    # where all losses lie on one lattice, or have a closed form, a run takes a few milliseconds: all of them
    is_quick = all(law.lattice is not None or law.normal_distance is not None for law in laws)
    # a mass at infinity is not proportional to the rounds
    is_shared = not is_quick and all((law.falls or law.is_cheap) and not law.infinite_mass for law in laws)
    most = own
    if (step * 1).account.integrals is not None:  # which no line of the laws has
        is_shared, most = False, own + MOST_INTEGRALS
    if is_quick or not all(law.has_cells for law in laws):
        most = len(rounds)
    elif is_shared:
        most = FEW_OWN + own
    is_last_line = False
    while waiting and is_shared and rounds[waiting[-1]] >= shortest:
        made = (
            waiting[-1] if is_last_line else next(i for i in waiting if rounds[i] * LINE_SPREAD >= rounds[waiting[-1]])
        )
        try:
            served = _by_lines(step * rounds[made], rounds[made], [rounds[i] for i in waiting], delta)
        except NumericalError:
            if made != waiting[-1] and (own or always):
                is_last_line = True  # with more rounds K falls faster; another line costs less than a run
                continue
            most = own  # K does not fall fast enough for a sum, and with fewer rounds it falls less
            break
        if rounds[made] not in served:
            break
        for i in waiting:
            found[i] = served.get(rounds[i], math.inf)
        waiting = [i for i in waiting if rounds[i] not in served]
    asked = [rounds[i] for i in waiting if rounds[i] >= shortest]
    chosen = {*always, *(asked if is_quick else some_rounds(asked, most))}
    for i in (i for i in waiting if rounds[i] in chosen):
        with suppress(NumericalError):
            found[i] = _own_epsilon(step * rounds[i], delta)
    return found


def _own_epsilon(run: Run, delta: float) -> float:
    """The exact epsilon of one run, without what the best order may prove below it: a curve knows that already."""
    if not run.infinite_mass < delta:
        return run.epsilon(delta=delta, method="exact")
    account = run.account
    if account.integrals is None or not FEWEST_ROUNDS <= run.rounds < FEW_ROUNDS:
        return account.epsilon(delta).upper
    # of so few rounds no attack comes near that would save one of the two
    found = math.inf
    with suppress(NumericalError):
        found = _pictured_profile(run).epsilon(delta).upper
    with suppress(NumericalError):
        found = min(found, account.integrals.epsilon(delta, near=found if 0 < found < math.inf else 1.0))
    return found if found < math.inf else account.epsilon(delta).upper


def exact_deltas(run: Run, epsilons: Array) -> tuple[Array, bool]:
    """Exact delta at each of increasing epsilons, and whether they are tight.

    Errs upward. Tight deltas are within `WIDEST` of the truth, if some pair of neighbours attains the laws of the run.
    Others may be further above it, or inf where none is proven; a best order may then prove less.
    """
    profile = _pictured_profile(run)
    lower, upper = profile.deltas(epsilons, most_nodes=MOST_NODES, all_or_none=False, narrow=SHARED)
    with np.errstate(invalid="ignore"):  # inf where none is proven
        upper = np.minimum(upper, run.account.integrated_deltas(epsilons))
        return upper, bool(((upper < math.inf) & (upper - lower <= WIDEST * upper)).all())


def _pictured_profile(run: Run) -> Profile:
    """The profile, on coarser lattices where it is a bound that no neighbours attain: those of few rounds are fine."""
    if run.account.integrals is None:
        return run.account.profile
    return Profile({direction: law.from_above(PICTURED) for direction, law in run.laws.items()})


def _by_lines(run: Run, made_for: int, rounds: Sequence[int], delta: float) -> dict[int, float]:
    """The epsilons of those rounds for which one line in each direction, made for a run of some, is tight."""
    first, *others = run.laws.values()
    line, guess = _own_line(first, delta, start=1.0)
    lines = [line]
    for law in others:
        with suppress(NumericalError), WithinDoubles():
            # the directions are much alike: where the first costs more, its nodes show that for the other
            quick = line_with_nodes_of(law, line, law.expand(line.t))
            if quick.at(guess).upper <= delta:
                lines.append(quick)
                continue
        own, its_guess = _own_line(law, delta, start=line.t)
        lines.append(own)
        guess = max(guess, its_guess)
    answers = {}
    # from the rounds that the line was made for to both sides, each from the answer next to it
    upward = [n for n in rounds if n >= made_for]
    downward = [n for n in reversed(rounds) if n < made_for and n * FEWEST_PART >= made_for]
    for side in (upward, downward):
        last, near = made_for, guess
        for n in side:
            # epsilon grows about as the root of the rounds
            answer = _in_all_directions([line * (n / made_for) for line in lines], delta, near * math.sqrt(n / last))
            if answer < math.inf:
                answers[n] = answer
                last, near = n, answer
    return answers


def _own_line(law: Composition, delta: float, *, start: float) -> tuple[Line, float]:
    """A line for the epsilon at `delta`, and about that epsilon, by the line."""
    saddle = saddle_at_delta(law, math.log(delta), start=start)
    if not 0 < saddle.epsilon < law.max_loss:
        raise NumericalError("No line is made for the ends of the losses.")
    line = line_near(law, saddle, epsilon=saddle.epsilon, log_delta=math.log(delta), most_nodes=MOST_NODES)
    found = _on_line(line, delta, saddle.epsilon)
    return line, found if found < math.inf else saddle.epsilon


def _in_all_directions(lines: Sequence[Line], delta: float, guess: float) -> float:
    """An epsilon at which every line proves `delta`; inf where one of them is not tight."""
    answer = 0.0
    with suppress(NumericalError), WithinDoubles():
        for line in lines:
            if not answer or line.at(answer).upper > delta:  # else the other direction is the more expensive one
                answer = max(answer, _on_line(line, delta, guess))
        return answer
    return math.inf


def _on_line(line: Line, delta: float, guess: float) -> float:
    """An epsilon at which the line proves `delta`, while just below it it proves more; inf where it is not tight."""
    epsilon = root_on(line, math.log(delta), guess)
    for distance in DISTANCES if epsilon > 0 else ():
        around = epsilon * np.array([1.0 - distance, 1.0 + distance])
        lower, upper = line.bracket(around)
        if upper[1] <= delta <= lower[0]:
            return float(around[1])
    return math.inf
