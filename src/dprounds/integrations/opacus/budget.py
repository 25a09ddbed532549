"""What is left of a budget while Opacus's history grows, computed before every batch and again before every step."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dprounds import _validate
from dprounds.conversions import epsilon_from_rdp, rdp_from_dp
from dprounds.integrations.opacus.history import Line, checked_history, one_step
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Run
from dprounds.planning import max_rounds

__all__ = ["Budget"]

# The Rényi orders at which a running sum of what is spent is kept. Every order proves a bound. These orders are close
# enough to the best one that the exact sum, which takes time for every different step, is seldom needed.
ORDERS = 1.0 + np.geomspace(0.1, 4096.0, 48)
# More than the relative error of one addition and one product.
ROUNDING_PER_LINE = 2.0**-51
# A plan looks no farther ahead than this.
MOST_STEPS_PLANNED = 2**53
# Where a schedule lowers the noise slowly, a plan assumes this part of the present noise. Less noise costs more, so the
# plan holds until the noise has fallen that far.
PLANNED_NOISE_RATIO = 0.98


@lru_cache(maxsize=64)  # a step is looked up before it is made and again after it
def _rdp_at_orders(noise: float, rate: float) -> NDArray[np.float64]:
    return np.asarray(one_step(noise, rate).rdp(ORDERS))


class HasHistory(Protocol):
    """Anything with a history of steps."""

    history: list[Line]


class Budget:
    """(`epsilon`, `delta`) by `method`, and what the history of an accountant leaves of it.

    A plan admits a number of releases with at least some noise at one rate. It needs one comparison per question until
    they are used up or something else is recorded. More noise than planned costs less.
    """

    def __init__(self, accountant: HasHistory, *, epsilon: float, delta: float, method: str | None) -> None:
        self.accountant = accountant
        self.epsilon = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
        self.delta = _validate.real("delta", delta, _validate.DELTA)
        self.method = None if method is None else _validate.choice("method", method, RUN_METHODS)
        # the plan: its least noise, rate and releases, the noise it was made at, and the history it was made for
        self._noise, self._rate, self._left, self._asked = math.inf, 0.0, 0, math.nan
        self._history: list[Line] = []
        self._begun, self._last = 0, (0.0, 0.0, 0)
        by_orders = "optimal" if self.method in (None, "exact") else self.method
        self._by_orders = by_orders
        self._allowed = np.asarray(rdp_from_dp(self.epsilon, order=ORDERS, delta=self.delta, method=by_orders))
        # the sum at the orders: the lines in it
        self._lines: list[Line] = []
        self._rdp: NDArray[np.float64] = np.zeros_like(ORDERS)
        self._added = 0
        self._lacks_noise = False

    def affords(self, noise: float, rate: float, releases: int) -> bool:
        """Whether `releases` more are within the budget."""
        if noise >= self._noise and rate <= self._rate and self._used() + releases <= self._left:
            return True
        used = self._used()
        # the next plan looks ahead by the releases that the last one covered, or by twice that if it was used up
        ahead = 0 if used == math.inf else int(used) * (2 if used >= self._left else 1)
        again = 0 < self._left <= used < math.inf and (noise, rate) == (self._asked, self._rate)
        history = self.accountant.history
        self._bring_up_to(history)
        if noise == 0 or self._lacks_noise:
            floor, left = noise, 0  # no release is affordable without noise, or after a step without noise
        else:
            floor, left = self._plan(noise, rate, releases, again=again, ahead=ahead)
        self._noise, self._rate, self._left, self._asked = floor, rate, left, noise
        self._history, self._begun = history, len(history)
        self._last = history[-1] if history else (0.0, 0.0, 0)
        return releases <= left

    def planned(self, noise: float, rate: float) -> int:
        """How many more of these releases the last plan admits."""
        covered = noise >= self._noise and rate <= self._rate
        return int(max(self._left - self._used(), 0)) if covered else 0

    def _used(self) -> float:
        """Releases since the plan; infinity, which no plan admits, if one of them was not planned."""
        history, begun, last = self.accountant.history, self._begun, self._last
        if history is not self._history or len(history) < begun:
            return math.inf
        grown: list[Line] = []
        if begun and history[begun - 1] is not last:
            noise, rate, steps = history[begun - 1]
            if not ((noise, rate) == last[:2] and steps >= last[2]):
                return math.inf
            grown = [(noise, rate, steps - last[2])]
        used = 0
        for noise, rate, steps in chain(grown, history[begun:]):
            if not (noise >= self._noise and rate <= self._rate):
                return math.inf
            used += steps
        return used

    def _plan(self, noise: float, rate: float, releases: int, *, again: bool, ahead: int) -> tuple[float, int]:
        """A noise, and how many releases with at least that noise are affordable; 0 if fewer than `releases` are."""
        step, spent = one_step(noise, rate), self._spent()
        if again or set(spent.mechanisms) <= set(step.mechanisms):
            rounds = max_rounds(
                step * releases, epsilon=self.epsilon, delta=self.delta, method=self.method, spent=spent
            )
            return noise, rounds * releases
        # the exact sum takes time for every different step that was spent, so the orders are asked first
        by_orders = self._left_by_orders(noise, rate)
        if by_orders >= releases:
            return noise, by_orders
        lower = one_step(PLANNED_NOISE_RATIO * noise, rate)
        if ahead > releases and self._meets(spent + lower * ahead):
            return PLANNED_NOISE_RATIO * noise, ahead
        return noise, releases if self._meets(spent + step * releases) else 0

    def _meets(self, run: Run) -> bool:
        return run.epsilon(delta=self.delta, method=self.method) <= self.epsilon

    def _left_by_orders(self, noise: float, rate: float) -> int:
        """How many steps one of the orders proves to be affordable."""
        spent = self._rdp * (1.0 + (self._added + 2) * ROUNDING_PER_LINE)
        cost = _rdp_at_orders(noise, rate)

        def meets(steps: int) -> bool:
            total = (spent + steps * cost) * (1.0 + 4.0 * ROUNDING_PER_LINE)
            epsilons = epsilon_from_rdp(total, order=ORDERS, delta=self.delta, method=self._by_orders)
            return float(np.min(epsilons)) <= self.epsilon

        with np.errstate(invalid="ignore", divide="ignore"):  # an order that bounds nothing allows no steps
            guess = np.max(np.nan_to_num((self._allowed - spent) / cost, nan=0.0, posinf=0.0, neginf=0.0))
        # the guess is rounded to no stated side, so it is checked
        steps = int(min(max(guess, 0.0) * (1.0 - 1e-12), MOST_STEPS_PLANNED))
        return steps if steps and meets(steps) else 0

    def _spent(self) -> Run:
        return Run(tuple(chain.from_iterable((one_step(*what) * steps).parts for *what, steps in self._lines)))

    def _bring_up_to(self, history: list[Line]) -> None:
        """Add the new lines of the history to the sum; start again if the history has changed otherwise."""
        lines = checked_history(history)
        place = max(len(self._lines) - 1, 0)
        grown = lines[:place] == self._lines[:-1] and (
            not self._lines
            or (
                len(lines) > place and lines[place][:2] == self._lines[-1][:2] and lines[place][2] >= self._lines[-1][2]
            )
        )
        if not grown:
            self._lines, self._rdp, self._added, self._lacks_noise = [], np.zeros_like(ORDERS), 0, False
            place = 0
        for noise, rate, steps in lines[place:]:
            new = steps - (self._lines[place][2] if place < len(self._lines) else 0)
            place += 1
            if noise == 0 and rate > 0 and new:
                self._lacks_noise = True
            elif new and rate > 0:
                self._rdp = self._rdp + new * _rdp_at_orders(noise, rate)
                self._added += 1
        self._lines = lines
