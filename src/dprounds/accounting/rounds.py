"""About where a run reaches its budget exactly, in rounds or in another parameter: a guess for a search that checks.

K of a run of equal rounds is K of one round times their number, so a line made for one number of rounds serves for
others near it: two lines find the rounds, whatever they are. Another parameter takes a line for every value.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.place import line_near, saddle_at_epsilon
from dprounds.accounting.profile import unproven_epsilon
from dprounds.errors import NumericalError

__all__ = ["parameter_by_secants", "parameter_on_lines", "rounds_by_secants", "rounds_on_lines"]

# The best order is 5 to 20 % short. The first line is made for that, the second for what it finds, the third in case.
LINES = 3
# A line is right for rounds this close to those that it was made for.
CLOSE = 1e-3
SECANTS = 30
# Where every value takes a new line: from one digit, half again as many at each step, to what suffices for a guess.
MOST_SECANTS_OF_SUMS = 8
NEAR = 1e-3


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


def rounds_by_secants(delta_of: Callable[[int], float], *, delta: float, guess: float) -> float:
    """The same for rounds beside others, where K is no multiple of that of one: each value takes a line of its own."""
    x, y = math.log(int(guess)), _log(delta_of(int(guess)))
    x2 = x + 0.1
    for _ in range(MOST_SECANTS_OF_SUMS):
        if abs(math.exp(x2) - math.exp(x)) < max(0.5, NEAR * math.exp(x)):
            break
        y2 = _log(delta_of(int(math.exp(x2))))
        if y2 == y or not (math.isfinite(y) and math.isfinite(y2)):
            break
        x, y, x2 = x2, y2, max(x2 + min((math.log(delta) - y2) * (x2 - x) / (y2 - y), 1.0), 0.0)
    return math.exp(x2)


def parameter_on_lines(
    law_of: Callable[[float], Composition],
    *,
    epsilon: float,
    delta: float,
    guess: float,
    settled: float,
    slope: float = -1.0,
) -> float | None:
    """The x, to a relative `settled`, at which the run of ``law_of(x)`` costs `epsilon`; None if it is not found.

    The logarithm of epsilon is nearly straight in that of a noise or a rate, so secants from nearby soon settle; the
    first step goes by `slope`.

    Guarantee
    ---------
    None: it proves nothing. Raises `NumericalError` where a line cannot be made.
    """
    start = 1.0

    def cost(x: float) -> float:
        nonlocal start
        found, start = unproven_epsilon(law_of(x), delta=delta, start=start)
        return found

    return parameter_by_secants(cost, limit=epsilon, guess=guess, settled=settled, slope=slope)


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
    x = guess
    before = None
    for _ in range(MOST_SECANTS_OF_SUMS):
        found = cost(x)
        if not 0 < found < math.inf:
            return None
        excess = math.log(found / limit)
        if before is not None:
            slope = (excess - before[1]) / math.log(x / before[0])
        step = -excess / slope if slope < 0 else math.inf
        if not abs(step) < longest:
            return None
        if abs(step) <= settled:
            return x * math.exp(step)
        x, before = x * math.exp(step), (x, excess)
    return None


def _multiple(line: Line, epsilon: float, log_delta: float) -> float:
    """The factor by which the line's rounds must grow, by secants of log delta in log rounds, nearly straight."""
    x, y = 0.0, _log_delta(line, epsilon)
    x2 = 0.01
    for _ in range(SECANTS):
        y2 = _log_delta(line * math.exp(x2), epsilon)
        if not (math.isfinite(y) and math.isfinite(y2)) or y2 == y:
            break
        x, y, x2 = x2, y2, min(max(x2 + (log_delta - y2) * (x2 - x) / (y2 - y), -1.0), 1.0)
        if abs(x2 - x) <= 1e-12:
            break
    return math.exp(x2)


def _log_delta(line: Line, epsilon: float) -> float:
    value, _ = line.value_and_slope(epsilon)
    return _log(value)


def _log(delta: float) -> float:
    """The logarithm of a delta that may be nothing."""
    return math.log(delta) if delta > 0 else -math.inf
