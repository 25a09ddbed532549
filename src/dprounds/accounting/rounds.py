"""About where a run reaches its budget exactly, in rounds or in another parameter: a guess for a search that checks.

K of a run of equal rounds is K of one round times their number, so a line made for one number of rounds serves for
others near it: two lines find the rounds, whatever they are. Another parameter takes a line for every value.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.root import guessed_root
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways.by_line import ByLine
from dprounds.accounting.ways.place import line_near, saddle_at_epsilon
from dprounds.accounting.ways.sketch import likely_saddle
from dprounds.errors import NumericalError
from dprounds.numerics.search import RootSearch, root_by_secants

__all__ = [
    "parameter_by_secants",
    "parameter_on_lines",
    "rounds_by_laplace",
    "rounds_by_secants",
    "rounds_on_lines",
    "unproven_epsilon",
]

# The best order is 5 to 20 % short. The first line is made for that, the second for what it finds, the third in case.
LINES = 3
# A line is right for rounds this close to those that it was made for.
CLOSE = 1e-3
MOST_STEPS_ON_LINE = 30
# Where every value takes a new line: from one digit, half again as many at each step, to what suffices for a guess.
MOST_SECANTS_OF_SUMS = 8
NEAR = 1e-3
# About how fast delta grows with the rounds, on logarithms, of many rounds and of few.
STEEP = 20.0
GROWTH = 2.0
LONGEST = 1.0
# Laplace's method is off by more than this, and its first guess may be off by much more.
NEAR_BY_LAPLACE = 1e-2
FAR = 6.0
# Where it finds nothing, it is asked again from so many rounds on that the record is expected in this number of them.
LIKELY = 10.0
TINY = 1e-300
# Its slope is a difference between this part of the rounds and them.
MORE = 1.1
# A step of Newton's method that is so short leaves about the square of it.
SETTLED = 1e-7


def rounds_on_lines(law_of: Callable[[int], Composition], *, epsilon: float, delta: float, guess: float) -> float:
    """The rounds, not rounded down, at which delta is reached at `epsilon` by the sums along a line.

    Guarantee
    ---------
    None: it proves nothing. Raises `NumericalError` where a line cannot be made.
    """
    rounds, start = max(guess, 1.0), 1.0
    for _ in range(LINES):
        made_for = int(rounds)
        law = law_of(made_for)
        if law.lattice is not None:
            raise NumericalError("The points of a lattice move with the number of rounds.")
        saddle = saddle_at_epsilon(law, epsilon, start=start)
        start = saddle.t
        line = line_near(law, saddle, epsilon=epsilon, log_delta=math.log(delta))
        rounds = max(made_for * _multiple(line, epsilon, math.log(delta)), 1.0)
        if abs(rounds - made_for) <= CLOSE * made_for:
            break
    return rounds


def rounds_by_laplace(
    law_of: Callable[[int], Composition], *, epsilon: float, delta: float, guess: float
) -> tuple[float, float]:
    """About the same by Laplace's method, which takes a saddle point for each value and no sum; and the slope of delta.

    Guarantee
    ---------
    None: it proves nothing. Raises `NumericalError` where there is no saddle point.
    """

    def excess(rounds: float) -> float:
        return likely_saddle(law_of(max(round(rounds), 1)), epsilon).log_delta(epsilon) - math.log(delta)

    rounds, likely = guess, LIKELY / max(law_of(1).seen, TINY)
    for start in (guess, likely) if guess < likely else (guess,):
        found = root_by_secants(
            excess, start, slope=GROWTH, settled=NEAR_BY_LAPLACE, longest=FAR, most_steps=MOST_SECANTS_OF_SUMS
        )
        if found is not None:
            rounds = found
            break
    rounds = max(round(rounds), 1)
    more = math.ceil(MORE * rounds)
    slope = (excess(more) - excess(rounds)) / math.log(more / rounds)
    return float(rounds), slope if 0 < slope < math.inf else GROWTH


def rounds_by_secants(delta_of: Callable[[int], float], *, delta: float, guess: float, slope: float = GROWTH) -> float:
    """The same for rounds in addition to others, where K is no multiple of that of one: each value takes its own line.

    The first step goes by `slope`, that of the logarithm of delta over that of the rounds.
    """
    search, rounds = RootSearch(0.0, math.inf, rises=True, on_logs=True, slope=slope), max(round(guess), 1)
    for _ in range(MOST_SECANTS_OF_SUMS):
        found = search.following(float(rounds), _log(delta_of(rounds)) - math.log(delta))
        if not 0 < found < math.inf:
            return guess
        # a step is no leap, and one to the next round is the last
        found = min(max(found, rounds * math.exp(-LONGEST)), rounds * math.exp(LONGEST))
        following = max(round(found), 1)
        if abs(following - rounds) <= max(1.0, NEAR * rounds):
            return found
        rounds = following
    return float(rounds)


def parameter_on_lines(
    law_of: Callable[[float], Composition],
    *,
    epsilon: float,
    delta: float,
    guess: float,
    settled: float,
) -> float | None:
    """The x, to a relative `settled`, at which the run of ``law_of(x)`` costs `epsilon`; None if it is not found.

    The logarithm of epsilon is nearly straight in that of a noise or a rate, so secants from nearby soon settle.

    Guarantee
    ---------
    None: it proves nothing. Raises `NumericalError` where a line cannot be made.
    """
    start = 1.0

    def cost(x: float) -> float:
        nonlocal start
        found, start = unproven_epsilon(law_of(x), delta=delta, start=start)
        return found

    return parameter_by_secants(cost, limit=epsilon, guess=guess, settled=settled)


def parameter_by_secants(
    cost: Callable[[float], float],
    *,
    limit: float,
    guess: float,
    settled: float,
    longest: float = 1.0,
    slope: float = -1.0,
) -> float | None:
    """The x, to a relative `settled`, at which a cost that falls about as x^slope is `limit`; None if it is not found.

    No step may be longer than `longest`, in logarithms: a guess was meant to be near.
    """
    return root_by_secants(
        lambda x: _log(cost(x)) - math.log(limit),
        guess,
        slope=slope,
        settled=settled,
        longest=longest,
        most_steps=MOST_SECANTS_OF_SUMS,
    )


def _multiple(line: Line, epsilon: float, log_delta: float) -> float:
    """The factor by which the line's rounds must grow, one if it is not found; log delta is straight in its log."""
    search, multiple = RootSearch(0.0, math.inf, rises=True, on_logs=True, slope=STEEP), 1.0
    for _ in range(MOST_STEPS_ON_LINE):
        grown = line * multiple
        value, _ = grown.value_and_slope(epsilon)
        if not value > 0:
            return 1.0
        slope = math.nan if line.variance else grown.slope_along(epsilon, line.values) / value
        following = search.following(multiple, math.log(value) - log_delta, slope)
        step = abs(math.log(following / multiple)) if following > 0 else math.inf
        if not step < LONGEST:
            return 1.0
        multiple = following
        if step <= SETTLED:
            break
    return multiple


def _log(delta: float) -> float:
    """The logarithm of a delta that may be nothing."""
    return math.log(delta) if delta > 0 else -math.inf


def unproven_epsilon(law: Composition, *, delta: float, start: float = 1.0) -> tuple[float, float]:
    """About the epsilon at `delta`, by the sum along a line without its error, and the t of the line.

    Guarantee
    ---------
    None: it proves nothing, and is a guess for a search that checks. Raises `NumericalError` where no line serves.
    """
    if not (law.lattice is not None or law.falls or law.is_cheap):
        raise NumericalError("The exact sum of this run does not converge.")
    if not law.infinite_mass < delta:
        raise NumericalError(f"delta {delta:g} is used up by the infinite mass.")
    with WithinDoubles():
        # where values of K are few, a ceiling costs more than they do
        way = ByLine(law, start=start, proven=law.is_cheap or law.lattice is not None)
        epsilon, sums = guessed_root(way, math.log(delta - law.infinite_mass), law.max_loss)
    return epsilon, sums.above.t
