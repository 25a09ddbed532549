"""Random allocation: every record is put into random steps of each epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import choice, count, show
from dprounds.accounting.law import Composition, Events, LossLaw
from dprounds.errors import NumericalError, ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import ABSOLUTE_ERROR, ADD, ADD_REMOVE, BOTH_DIRECTIONS, RELATIVE_ERROR, Mechanism
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.lognormal_limited import LimitedMean, OneAbove
from dprounds.numerics.lognormal_mean import LognormalMean, Means
from dprounds.numerics.lognormal_slopes import mean_slopes
from dprounds.numerics.lognormal_window import LognormalWindow
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above

__all__ = ["MOST_STEPS", "RandomAllocation"]

Array = NDArray[np.float64]

ALLOCATION_RELATIONS = (ADD_REMOVE, "zero-out")
# Steps of one epoch; a float holds them, and a run of more than 10^9 rounds an epoch is a slip.
MOST_STEPS = 10**9
# Epochs that use one allocation.
MOST_REPEATS = 10**15
# Values of K that one line may cost.
MOST_NODES = 2**13
# Lines are put no further out than this part of what K is known up to on the axis, and where K is cheap.
PART_OF_AXIS = 0.6
MOST_ON_RAYS = 1.3
LARGEST_T = 40.0
# A mean of lognormal values has a window if its deviation is below the first number, and powers are known up to the
# second one, or to all that are of use: the third, over the deviation. Doubles do not resolve a much narrower one.
WIDEST_WINDOW = 0.045
NARROWEST_WINDOW = 1e-15
LEAST_REACH = 66.0
MOST_USED = 8.0
# Where the deviation of a mean is below this, epochs are told apart by their largest value, and what is left
# out then may be this part of delta, in logarithms.
WIDEST_WITH_EVENTS = 0.05
LOG_MISSING = math.log(1e-11)
LOG_OF_TWO = math.log(3e-10)
LEAST_LEFT_OUT = 1e-9
LEAST_REACH_OF_EVENTS = 0.5
MOST_LIMIT = 13.0
LIMIT_STEP = 0.05
MOST_EVENT_NODES = 2**10
# From this deviation of one value's logarithm on, it is tried whether the largest power is known.
LARGE_DEVIATION = 0.4
# Smaller negative powers than this over the deviation of a mean are no use of a window then.
LEAST_IN_SPREADS = 1.0
# Lines are put no further out than this part of the largest power of a window.
PART_OF_REACH = 0.62
# Below this t = order - 1 the Rényi bound of a larger order, which is not smaller, is taken too: there the error of M
# counts for more than the order.
SMALL_T = 1.0 / 64.0
# Rows of moments that are remembered: a line asks for its values and for their errors.
MOST_REMEMBERED = 64
# Records of one group: beyond, each would have next to no noise.
LARGEST_GROUP = 1000
# The relative step of a difference that stands for a derivative.
SLOPE_STEP = 1e-3


@dataclass(frozen=True, repr=False)
class RandomAllocation(Accounted, Mechanism):
    r"""One epoch of steps, of which every record joins some that are drawn at random, independently of other records.

    With t steps and one of them for each record, :math:`v_i` normal of mean :math:`-1/2\sigma^2` and deviation
    :math:`1/\sigma`, and :math:`S = \frac1t \sum_{i \le t} e^{v_i}`,

    .. math:: M_{\text{remove}}(z) = E[S^{z+1}], \qquad M_{\text{add}}(z) = E[S^{-z}].

    ``RandomAllocation(Gaussian(1.0), steps=100) * 10`` is ten epochs, each with a new allocation. Neighbours differ by
    one record, present or absent, or present and empty; both directions are accounted. What a step releases must be a
    sum of clipped values plus noise, divided by a public number and never by the number of records in the step.

    Parameters
    ----------
    mechanism
        The noise of one step, a `Gaussian`.
    steps
        Steps of an epoch, an integer in [1, inf).
    participations
        How many of the steps a record joins, an integer in [1, steps]. For more than one, and fewer than all, what is
        computed is an upper bound, and a guarantee says ``"bound"``.
    repeats
        Epochs that use the same allocation, an integer in [1, 10^15]. They cost as much as one epoch whose noise is
        smaller by the square root of their number.
    relation
        Which data sets are neighbours: ``"add-remove"`` one record, or ``"zero-out"`` one, which leaves an empty record
        in its place. The cost is the same.
    group_size
        The guarantee is for so many records together, those of one person; each is allocated by itself. For more than
        one, unless an epoch is one step or each record joins all of them, it is an upper bound, and a guarantee says
        ``"bound"``.

    Theorem
    -------
    [FS25, Theorem 3.1] for the pair; docs/theory/allocation.md proves it, and what is computed.

    Examples
    --------
    >>> from dprounds.mechanisms import Gaussian
    >>> epoch = RandomAllocation(Gaussian(noise_multiplier=1.0), steps=100)
    >>> round((epoch * 10).epsilon(delta=1e-5), 6)
    1.701498
    """

    mechanism: Mechanism
    steps: int
    participations: int = 1
    repeats: int = 1
    relation: str = ADD_REMOVE
    group_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ParameterError(f"mechanism must be a mechanism, got {show(self.mechanism)}.")
        if not isinstance(self.mechanism, Gaussian):
            raise UnsupportedError(
                f"No theorem is known here for random allocation with {type(self.mechanism).__name__} noise: "
                "allocate a Gaussian."
            )
        steps = count("steps", self.steps, least=1, most=MOST_STEPS)
        participations = count("participations", self.participations, least=1, most=steps)
        if self.relation == "replace-one":
            raise UnsupportedError(
                "relation 'replace-one' has no theorem here for random allocation: use 'add-remove' or 'zero-out'."
            )
        self._set(
            steps=steps,
            participations=participations,
            repeats=count("repeats", self.repeats, least=1, most=MOST_REPEATS),
            relation=choice("relation", self.relation, ALLOCATION_RELATIONS),
            group_size=count("group_size", self.group_size, least=1, most=LARGEST_GROUP),
        )

    @property
    def directions(self) -> tuple[str, ...]:
        """``"remove"`` and ``"add"``: a record among those that are allocated is taken away, or joins them."""
        return BOTH_DIRECTIONS

    @property
    def sampling(self) -> str:
        """``"allocation"``: each record joins random steps of every epoch."""
        return "allocation"

    @property
    def _noise_multiplier(self) -> float:
        """That of one epoch that costs as much as all repeats of it."""
        if not isinstance(self.mechanism, Gaussian):
            raise TypeError("only Gaussians are allocated")
        return self.mechanism.noise_multiplier / math.sqrt(self.repeats)

    @property
    def _always(self) -> Gaussian | None:
        """What it is where a record joins every step."""
        if self.participations < self.steps:
            return None
        return self._known_steps

    @property
    def _known_steps(self) -> Gaussian:
        """An epoch without its secret: at worst, all records of the group join the same steps."""
        noise = self._noise_multiplier / math.sqrt(self.participations) / self.group_size
        return Gaussian(noise if self.group_size == 1 else math.nextafter(noise, 0.0))

    @property
    def is_tight(self) -> bool:
        """Whether the pair is one of real neighbours: for a group, only where nothing is secret."""
        return self.group_size == 1 or self._always is not None

    def attack_law(self, direction: str) -> LossLaw:
        """Of real neighbours: all records of the group but one are empty."""
        return self.law(direction) if self.is_tight else replace(self, group_size=1).law(direction)

    @property
    def _blocks(self) -> list[tuple[LognormalMean, int]]:
        """Epochs of one participation each that together cost no less, with their number: the steps in equal blocks.

        For a group, as many again for each of its records, which then have a part of the noise each.
        """
        shorter, longer = self.steps // self.participations, self.steps % self.participations
        parts = [(shorter + 1, longer), (shorter, self.participations - longer)]
        deviation = 1.0 / self._noise_multiplier
        if self.group_size > 1:
            deviation = math.nextafter(deviation * math.sqrt(self.group_size), math.inf)
        return [(LognormalMean(deviation, steps), self.group_size * times) for steps, times in parts if times]

    @property
    def _largest_t(self) -> float:
        """K is computed up to here on the axis."""
        return min(mean.most_power for mean, _ in self._blocks) - 1.0

    def _max_loss(self, direction: str) -> float:
        return math.inf

    def _moments(self, z: Numbers, direction: str) -> tuple[Numbers, Array]:
        """K and the errors of M, relative to M on the axis."""
        power = -z if direction == ADD else z + 1.0
        upward = power.real + 1j * np.abs(power.imag)
        value, error = np.zeros(z.size, dtype=np.complex128), np.zeros(z.size)
        for mean, times in self._blocks:
            found = _means(mean, upward.tobytes())
            value += times * found.logs
            error += times * found.errors
        if not np.iscomplexobj(z):
            # where t is positive no K is below 0, but by rounding
            return np.where(z.real > 0, np.maximum(value.real, 0.0), value.real), error
        return np.where(power.imag < 0, np.conj(value), value), error

    def _windows(self, direction: str) -> list[tuple[LognormalWindow, int]]:
        """For large powers of a mean that is close to one: windows of the blocks, or none.

        Of positive powers where they do not reach far, one value may be as large as all others, and there is none.
        """
        found = [
            (LognormalWindow(mean.deviation, mean.count, is_cut=direction != ADD), times)
            for mean, times in self._blocks
        ]
        suits = all(
            window.count > 1
            and NARROWEST_WINDOW <= window.spread <= WIDEST_WINDOW
            and window.most_power >= min(LEAST_REACH, MOST_USED / window.spread)
            and (window.deviation < LARGE_DEVIATION or window.is_resolved)
            for window, _ in found
        )
        return found if suits else []

    def _window_law(self, windows: list[tuple[LognormalWindow, int]], direction: str) -> LossLaw:
        """The law by windows; of a removed record, without the outputs at which a value is above its bound."""

        def moments(z: Numbers) -> tuple[Numbers, Array]:
            power = -z if direction == ADD else z + 1.0
            upward = power.real + 1j * np.abs(power.imag)
            value, error = np.zeros(z.size, dtype=np.complex128), np.zeros(z.size)
            if direction == ADD and any(
                window.deviation >= LARGE_DEVIATION and z.real.max() * window.spread < LEAST_IN_SPREADS
                for window, _ in windows
            ):
                return self._moments(z, direction)  # no tilt takes large values away
            for window, times in windows:
                found = _window_means(window, upward.tobytes())
                value += times * found.logs
                error += times * found.errors
            if not np.iscomplexobj(z):
                return np.maximum(value.real, 0.0), error  # no K is below 0 there, but by rounding
            return np.where(power.imag < 0, np.conj(value), value), error

        def ceiling(t: float, s: Array) -> Array:
            value, error = moments(np.array([t]))
            power = -t if direction == ADD else t + 1.0
            positive = np.maximum(s, np.finfo(float).tiny)
            fall = sum(times * np.minimum(window.log_fall(power, positive), 0.0) for window, times in windows)
            return np.asarray(float(_above(value.real, error)[0]) + fall, dtype=np.float64)

        left_out = sum(times * window.left_out for window, times in windows) if direction != ADD else 0.0
        reach = min(window.most_power for window, _ in windows)
        return LossLaw(
            of=self,
            log_moment=lambda z: moments(z)[0],
            moment_error=lambda z: moments(z)[1],
            ceiling=ceiling,
            left_out=left_out * (1.0 + 8.0 * UNIT_ROUNDOFF),
            largest_t=PART_OF_REACH * reach - 1.0,
            max_loss_is_least=True,
            is_attained=self.participations == 1,
            most_nodes=MOST_NODES,
            slopes=partial(self._window_slopes, windows, direction),
            events=partial(self._events, PART_OF_REACH * reach, left_out)
            if direction != ADD and self._has_events
            else None,
        )

    def _events_up_to(
        self, largest_t: float, left_out: float, direction: str
    ) -> Callable[[int, float], Events | None] | None:
        """What tells epochs apart by their largest value, if that is known of them."""
        return partial(self._events, largest_t, left_out) if direction != ADD and self._has_events else None

    def _events(self, largest_t: float, left_out: float, times: int, log_delta: float) -> Events | None:
        """Epochs in which no value is above a limit, and such in which one value of one epoch is.

        None where the line of the law itself, which goes up to `largest_t` and leaves out this probability, will do.
        The limit is where two values are above it with a probability that is next to nothing against delta; or one, if
        that is so high that it does not count at the powers that are wanted.
        """
        ((mean, repeats),) = self._blocks
        epochs = repeats * times
        none = LimitedMean(mean.deviation, mean.count, True, _limit(mean, epochs, log_delta + LOG_MISSING, 1))
        wanted = math.sqrt(-2.0 * log_delta / epochs) / none.spread  # the saddle point of a normal law
        if wanted <= largest_t and times * left_out <= LEAST_LEFT_OUT * math.exp(log_delta):
            return None
        if wanted <= none.most_power:
            return Events((self._event_law(none) * epochs,), epochs * none.left_out)
        highest, limit = none.limit, _limit(mean, epochs, log_delta + LOG_OF_TWO, 2)
        missing = epochs * none.left_out
        none = LimitedMean(mean.deviation, mean.count, True, limit)
        if not none.most_power * none.spread >= LEAST_REACH_OF_EVENTS:
            return None  # one value at the limit is far more than all others together
        below = self._event_law(none)
        above = self._event_law(OneAbove(mean.deviation, mean.count, limit, highest), epochs)
        missing += 0.5 * (epochs * none.left_out) ** 2
        both = Composition(((above, 1), *(((below, epochs - 1),) if epochs > 1 else ())))
        return Events((below * epochs, both), missing * (1.0 + 64.0 * UNIT_ROUNDOFF))

    def _event_law(self, mean: LimitedMean | OneAbove, times: int = 1) -> LossLaw:
        """The law of an epoch in which values are below a limit, or one is above it, that one in so many epochs."""

        def moments(z: Numbers) -> tuple[Numbers, Array]:
            power = z + 1.0
            found = _event_means(mean, (power.real + 1j * np.abs(power.imag)).tobytes())
            value = found.logs + math.log(times)
            if not np.iscomplexobj(z):
                return value.real, found.errors
            return np.where(power.imag < 0, np.conj(value), value), found.errors

        def ceiling(t: float, s: Array) -> Array:
            value, error = moments(np.array([t]))
            fall = mean.log_fall(t + 1.0, np.maximum(s, np.finfo(float).tiny))
            return np.asarray(float(_above(value.real, error)[0]) + fall, dtype=np.float64)

        return LossLaw(
            of=self,
            log_moment=lambda z: moments(z)[0],
            moment_error=lambda z: moments(z)[1],
            ceiling=ceiling,
            left_out=1.0,
            log_moment_above=lambda t: mean.log_above(t + 1.0) + math.log(times),
            largest_t=mean.most_power - 1.0,
            is_attained=self.participations == 1,
            most_nodes=MOST_EVENT_NODES,
        )

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        always = self._always
        return self._moments(z, direction)[0] if always is None else always._log_moment(z, direction)

    def _law(self, direction: str) -> LossLaw:
        always = self._always
        if always is not None:
            return replace(always.law(), of=self, slopes=partial(self._slopes, direction))
        windows = self._windows(direction)
        if windows:
            return self._window_law(windows, direction)
        blocks, largest_t = self._blocks, min(PART_OF_AXIS * self._largest_t, LARGEST_T)

        def ceiling(t: float, s: Array) -> Array:
            value, error = self._moments(np.array([t]), direction)
            fall = sum(times * (mean.deviation * s) ** 2 / mean.count for mean, times in blocks)
            top = float(_above(value.real, error)[0])
            return np.asarray(top - 0.5 * fall * (1.0 - 8.0 * UNIT_ROUNDOFF), dtype=np.float64)

        return LossLaw(
            of=self,
            log_moment=lambda z: self._moments(z, direction)[0],
            moment_error=lambda z: self._moments(z, direction)[1],
            ceiling=ceiling,
            largest_t=largest_t,
            max_loss_is_least=True,
            is_attained=self.participations == 1,
            most_nodes=MOST_NODES,
            slopes=partial(self._slopes, direction),
            events=partial(self._events, MOST_ON_RAYS * largest_t, 0.0)
            if direction != ADD and self._has_events
            else None,
        )

    @property
    def _has_events(self) -> bool:
        """Whether epochs are told apart by their largest value."""
        if len(self._blocks) > 1:
            return False
        ((mean, _),) = self._blocks
        return LimitedMean(mean.deviation, mean.count, True).spread <= WIDEST_WITH_EVENTS and mean.count > 2

    def _slopes(self, direction: str, z: Numbers, values: Numbers) -> dict[str, Numbers]:
        """The derivatives of K on a line, upward: by the noise multiplier and by the part of the steps that are joined.

        Of one step alone the deviation is all that there is, and K a polynomial.
        """
        power = -z if direction == ADD else z + 1.0
        upward = power.real + 1j * np.abs(power.imag)
        noise, rate = self._noise_multiplier * math.sqrt(self.repeats), self.participations / self.steps
        by_noise, by_rate = np.zeros(z.size, dtype=np.complex128), np.zeros(z.size, dtype=np.complex128)
        for mean, times in self._blocks:
            found = mean_slopes(mean, upward)
            by_noise -= times * mean.deviation / noise * found.by_deviation
            by_rate -= times * mean.count / rate * found.by_count
        is_below = power.imag < 0
        return {
            "noise_multiplier": np.where(is_below, np.conj(by_noise), by_noise),
            "sampling_rate": np.where(is_below, np.conj(by_rate), by_rate),
        }

    def _window_slopes(
        self, windows: list[tuple[LognormalWindow, int]], direction: str, z: Numbers, values: Numbers
    ) -> dict[str, Numbers]:
        """The same by differences of K on the nodes, of fourth order: of windows no other derivative is known."""
        power = -z if direction == ADD else z + 1.0
        upward = power.real + 1j * np.abs(power.imag)
        noise, rate = self._noise_multiplier * math.sqrt(self.repeats), self.participations / self.steps
        by_noise, by_rate = np.zeros(z.size, dtype=np.complex128), np.zeros(z.size, dtype=np.complex128)
        for window, times in windows:
            by_noise -= times / noise * _by_part(window, "deviation", upward)
            by_rate -= times / rate * _by_part(window, "count", upward)
        is_below = power.imag < 0
        return {
            "noise_multiplier": np.where(is_below, np.conj(by_noise), by_noise),
            "sampling_rate": np.where(is_below, np.conj(by_rate), by_rate),
        }

    def _rdp(self, orders: Array) -> Array:
        always = self._always
        if always is not None:
            return always._bounds(orders)
        t = orders - 1.0
        plain = self._known_steps._bounds(orders)
        small, beyond = t < SMALL_T, t >= self._largest_t
        # only what is asked for: every power may take a table of its own
        ends = [SMALL_T] * bool(small.any()) + [self._largest_t] * bool(beyond.any())
        known, cost = self._known_costs(np.unique(np.concatenate([ends, t[~beyond]])))
        if not known.size:  # there is too little noise
            return plain
        # K is convex, and K(0) = 0
        bounds = np.interp(t, np.append(0.0, known), np.append(0.0, cost)) / t
        if SMALL_T in known:
            at_end = float(cost[known == SMALL_T][0]) / SMALL_T
            bounds = np.where(small, np.minimum(bounds, at_end), bounds)
        last = float(known[-1])
        if (t > last).any():
            bounds = np.where(t > last, self._cost_beyond(last, float(cost[-1]), t) / t, bounds)
        return np.minimum(above(bounds, RELATIVE_ERROR * bounds + ABSOLUTE_ERROR), plain)

    def _known_costs(self, t: Array) -> tuple[Array, Array]:
        """The t, of a row, at which K is computed, and upper bounds of it there in both directions."""
        t = t[(t > 0) & (t <= self._largest_t)]
        if not t.size:
            return t, t
        try:
            cost = self._cost(t)
        except NumericalError:
            cost = np.concatenate([self._cost_if_known(one) for one in t.reshape(-1, 1)])
        return t[cost < math.inf], cost[cost < math.inf]

    def _cost_if_known(self, t: Array) -> Array:
        try:
            return self._cost(t)
        except NumericalError:
            return np.full(t.size, math.inf)

    def _cost(self, t: Array) -> Array:
        """Upper bounds of K in both directions."""
        found = np.zeros(t.size)
        for direction in self.directions:
            value, error = self._moments(t, direction)
            found = np.maximum(found, _above(value.real, error))
        return found

    def _cost_beyond(self, last: float, cost: float, t: Array) -> Array:
        """Upper bounds of K beyond the last t at which it is computed.

        K is convex and not above that of the plain Gaussians, a parabola: so it is below the tangent to that from the
        last point, and then below the parabola.
        """
        bend = 0.5 / self._known_steps.noise_multiplier**2
        touch = last + math.sqrt(max(last * last + last - cost / bend, 0.0))
        tangent = cost + bend * (2.0 * touch + 1.0) * (t - last)
        return np.where(t < touch, tangent * (1.0 + 1e-12), bend * t * (t + 1.0))


def _above(value: Array, error: Array) -> Array:
    """K on the axis, from above, given the relative error of M."""
    return np.where(error < 0.25, value + 2.0 * error, math.inf)


def _limit(mean: LognormalMean, epochs: int, log_chance: float, number: int) -> float:
    """The least limit, in deviations, above which so many values are with no more than about this probability."""
    low, high = 0.0, MOST_LIMIT
    while high - low > LIMIT_STEP:
        middle = 0.5 * (low + high)
        chance = epochs * LimitedMean(mean.deviation, mean.count, True, middle).left_out
        low, high = (middle, high) if number * math.log(chance) > log_chance else (low, middle)
    return high


@lru_cache(maxsize=MOST_REMEMBERED)
def _event_means(mean: LimitedMean | OneAbove, powers: bytes) -> Means:
    """The means at the powers behind these bytes."""
    found = mean.means(np.frombuffer(powers, dtype=np.complex128))
    if np.isnan(found.logs).any() or np.isnan(found.errors).any():
        raise NumericalError("A mean of lognormal values is not a number in doubles.")
    return found


@lru_cache(maxsize=MOST_REMEMBERED)
def _window_means(window: LognormalWindow, powers: bytes) -> Means:
    """The means at the powers behind these bytes."""
    found = window.means(np.frombuffer(powers, dtype=np.complex128))
    if np.isnan(found.logs).any() or np.isnan(found.errors).any():
        raise NumericalError("A mean of lognormal values is not a number in doubles.")
    return found


@lru_cache(maxsize=MOST_REMEMBERED)
def _means(mean: LognormalMean, powers: bytes) -> Means:
    """The means at the powers behind these bytes."""
    w = np.frombuffer(powers, dtype=np.complex128)
    if mean.count == 1:
        # one value alone: its moments are those of a normal law
        return Means(0.5 * mean.deviation**2 * (w * (w - 1.0)), np.zeros(w.size))
    found = mean.means(w)
    if np.isnan(found.logs).any() or np.isnan(found.errors).any():
        raise NumericalError("A mean of lognormal values is not a number in doubles.")
    return found


def _by_part(window: LognormalWindow, name: str, w: Numbers) -> Numbers:
    """The derivative of the logarithm of the mean of a power by the logarithm of a field of the window."""

    def apart(part: float) -> Numbers:
        """The difference of two logarithms, whichever branches they are on."""
        here, there = (
            _window_means(replace(window, **{name: getattr(window, name) * (1.0 + side)}), w.tobytes()).logs
            for side in (part, -part)
        )
        turned = np.remainder((here - there).imag + math.pi, 2.0 * math.pi) - math.pi
        return np.asarray((here - there).real + 1j * turned)

    return (8.0 * apart(SLOPE_STEP) - apart(2.0 * SLOPE_STEP)) / (12.0 * SLOPE_STEP)
