"""Gaussian noise on a batch of fixed size, drawn without replacement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import choice, count, show
from dprounds.accounting.cells import CellsOf
from dprounds.accounting.law import LossLaw, Slopes
from dprounds.errors import NumericalError, ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import (
    ABSOLUTE_ERROR,
    BOTH_DIRECTIONS,
    RELATIVE_ERROR,
    REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    Mechanism,
)
from dprounds.mechanisms.emptied_record import (
    emptied_attack_cells,
    emptied_cells,
    group_attack_cells,
    noises_cells,
    two_sided_cells,
)
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.mechanisms.grouped_batches import (
    cells_of_mixture,
    chances_in_batch,
    kept,
    log_mean_exp,
    mixed_law,
)
from dprounds.mechanisms.mixture_of_gaussians import MixtureOfGaussians
from dprounds.mechanisms.one_record import one_record_law, one_record_rdp
from dprounds.mechanisms.replaced_slopes import POINTS, panel_edges, replaced_slopes
from dprounds.mechanisms.sampling import sampled_excess
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.mixture import log_mixture, log_mixture_inverse, log_mixture_ulps, mixture_share
from dprounds.numerics.quadrature import panel_rule, scale_above
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above

__all__ = ["FixedSizeSampled"]

Array = NDArray[np.float64]

RELATIONS = (REPLACE_ONE, ZERO_OUT)

# More panels are out of reach of doubles, or of patience.
MOST_PANELS = 2**14
# Each record of a larger group would have next to no noise.
LARGEST_GROUP = 100
# The weight of a number of a group's records in a batch, at least.
LEAST_WEIGHT = 1e-300
# With less noise a batch reveals what it holds, and with more it hides everything.
LEAST_NOISE, MOST_NOISE = 0.02, 1e6
MOST_REMEMBERED = 64
# Up to this order moments are integrated; beyond, a bound is as good.
SMALL_ORDER = 64.0
# Values of |M| that a ceiling may cost, and the least that they are taken to be below one.
MOST_POINTS = 40
LEAST_FALL = 1e-12
# So many of them are evenly spaced, and share their sines.
STEPS_AT_ONCE = 6
# The smallest sizes are left out, up to this of |M| / M(t), and counted as an error.
LEFT_OUT = 1e-12
MOST_NODES_OF_LINES = 2**8
# Where the record is expected in fewer rounds than this, a line hardly falls.
FEWEST_SEEN = 3.0
# The part of epsilon that a lattice may cost where a record is emptied: the bracket is some percent wide.
LATTICE_PRECISION = 1e-5
REPLACED_PRECISION = 2e-6
ATTACK_PRECISION = 3e-6

# --- What carries a proof.

# |M| / M(t) is wanted to SQUARE_ERROR. Over a panel exponent and phase change by NATS at most, and the
# rule of 20 points errs by less than 5 * 4^-40 exp(3.6 + c * 4 * 1.9) of the largest value, which is below 1e-10 for
# all c up to 3.6, twice what is needed; see docs/theory/loaders.md, "Ceiling".
SQUARE_ERROR = 1e-10


@dataclass(frozen=True, repr=False)
class FixedSizeSampled(Accounted, Mechanism):
    r"""Gaussian noise on the clipped sum of `batch_size` of `dataset_size` records, drawn anew without replacement.

    The number of records is public and the same for neighbours, so none can be added or removed. The noise multiplier
    is the standard deviation over the *clipping norm*, as in training code. Replacing a record moves the sum by up to
    twice that norm, which is counted here.

    Only a bracket is proven: a guarantee has the method ``"bound"``, its `upper` end holds for every pair of
    neighbours, and for no epsilon below `lower` are all of them close. `log_moment` bounds the moments from above.

    Parameters
    ----------
    mechanism
        `Gaussian`.
    batch_size, dataset_size
        Records in a batch, and in all.
    relation
        ``"replace-one"``: a record is replaced by another; or ``"zero-out"``: by an empty one, whose gradient is zero.
    group_size
        The guarantee is for so many records together, those of one person, an integer in [1, 100].

    Theorem
    -------
    docs/theory/loaders.md, "Batches of fixed size"; docs/theory/fixed-size.md.

    Examples
    --------
    >>> step = FixedSizeSampled(Gaussian(2.2), batch_size=256, dataset_size=60_000)
    >>> found = (step * 14_062).guarantee(delta=1e-5)
    >>> found.method, round(found.lower, 4), round(found.upper, 4)
    ('bound', 2.3816, 2.4256)
    """

    mechanism: Mechanism
    batch_size: int
    dataset_size: int
    relation: str = REPLACE_ONE
    group_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ParameterError(f"mechanism must be a mechanism, got {show(self.mechanism)}.")
        if not isinstance(self.mechanism, Gaussian):
            raise UnsupportedError(
                f"What {type(self.mechanism).__name__} costs on batches of fixed size is not known here: "
                "use a Gaussian, or Poisson sampling."
            )
        self._set(
            batch_size=count("batch_size", self.batch_size, least=1),
            dataset_size=count("dataset_size", self.dataset_size, least=1),
            relation=choice("relation", self.relation, RELATIONS),
        )
        if self.batch_size > self.dataset_size:
            raise ParameterError(
                f"batch_size must be at most dataset_size, {self.dataset_size}, got {show(self.batch_size)}."
            )
        most = min(self.dataset_size, LARGEST_GROUP)
        self._set(group_size=count("group_size", self.group_size, least=1, most=most))

    @property
    def sampling(self) -> str:
        """``"fixed-size"``: so many records are drawn without replacement, anew in each round."""
        return "fixed-size"

    @cached_property
    def rate(self) -> float:
        """The chance that a record is in the batch, or one of the group's, not below it."""
        exact = 1 - self._chances.get(0, Fraction(0))
        rate = float(exact)
        return rate if Fraction(rate) >= exact else math.nextafter(rate, 2.0)

    @cached_property
    def _chances(self) -> dict[int, Fraction]:
        """Of each number of the group's records in a batch."""
        return chances_in_batch(self.batch_size, self.dataset_size, self.group_size)

    @cached_property
    def _members(self) -> list[tuple[float, FixedSizeSampled]]:
        """For a group, what j of its records cost as one record of j times the norm; each with its weight."""
        sizes = Fraction(self.rate).as_integer_ratio()
        some = 1 - self._chances.get(0, Fraction(0))
        return [
            (
                # one below the doubles is raised: a group that is likelier costs more
                max(float(chance / some), LEAST_WEIGHT),
                FixedSizeSampled(Gaussian(math.nextafter(self._noise / j, 0.0)), *sizes, self.relation),
            )
            for j, chance in self._chances.items()
            if j
        ]

    @property
    def directions(self) -> tuple[str, ...]:
        """One, where a record is replaced by another: the two may change places. Both, where it is emptied."""
        return (REMOVE,) if self.relation == REPLACE_ONE else BOTH_DIRECTIONS

    @property
    def is_tight(self) -> bool:
        """Only where every record is in every batch; else the pair of many rounds is not one of neighbours."""
        return self.batch_size == self.dataset_size

    @property
    def _noise(self) -> float:
        """The noise over the clipping norm."""
        return cast(Gaussian, self.mechanism).noise_multiplier  # the constructor has made sure

    @cached_property
    def _replaced(self) -> Gaussian:
        """Two vectors of the ball that take each other's place, of a record that is in the batch."""
        return Gaussian(0.5 * self._noise)

    def _rdp(self, orders: Array) -> Array:
        t = orders - 1.0
        if self.group_size > 1:  # their profiles are mixed, so moments of pairs with these profiles are
            pairs = [(weight, t * one._rdp(orders)) for weight, one in self._members]
            costs = log_mean_exp(*zip(*pairs, strict=True)).real
            return above(costs / t, RELATIVE_ERROR * costs / t + ABSOLUTE_ERROR)
        if self.rate == 1:
            return self._whole._bounds(orders)
        return one_record_rdp(self._replaced, self.rate, orders)  # docs/theory/fixed-size.md, Corollary 1

    def _bounds_of_pair(self, orders: Array) -> Array:
        """Rényi bounds of the dominating pair of one replaced record, which are above those of neighbours."""
        t = orders - 1.0
        bounds = self._replaced._bounds(orders)  # with nothing gained by sampling
        if self.rate == 1:
            return bounds
        small = np.flatnonzero(t <= SMALL_ORDER if self._is_resolved else np.zeros(t.shape, dtype=np.bool_))
        large = np.flatnonzero(t > SMALL_ORDER)
        octave = np.ceil(np.log2(np.maximum(t[small], 1.0)))  # a rule for each factor of two
        for number in set(octave.tolist()):
            here = small[octave == number]
            with suppress(NumericalError):  # with little noise there are too many panels at large orders
                value, error = self._rule(2.0**number, 0.0).real_cumulant_with_error(t[here])
                bound = above(value / t[here], (error + RELATIVE_ERROR) * value / t[here] + ABSOLUTE_ERROR)
                bounds[here] = np.minimum(bounds[here], bound)
        if large.size:
            bounds[large] = np.minimum(bounds[large], self._far_moments(t[large]) / t[large] * (1.0 + RELATIVE_ERROR))
        return bounds

    def _far_moments(self, t: Array) -> Array:
        """An upper bound of K at large t: M is at most that of a Poisson sample, and one for all other losses."""
        sampled = one_record_rdp(self._replaced, self.rate, t + 1.0)
        return np.asarray(np.logaddexp(t * sampled, 0.0))

    @property
    def _is_resolved(self) -> bool:
        return LEAST_NOISE <= self._replaced.noise_multiplier <= MOST_NOISE

    def _rule(self, t: float, s: float) -> TiltableLaw:
        """The law of the loss, fit for its moments at real parts up to t and imaginary parts up to s."""
        if not self._is_resolved:
            raise NumericalError(f"Batches with noise multiplier {self._noise:g} are not resolved.")
        return _law(self._replaced.noise_multiplier, self.rate, scale_above(t), scale_above(s) if s else 0.0)

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        if self.group_size > 1:
            if np.iscomplexobj(z):
                raise NumericalError(
                    "The moments of a group in batches of fixed size are known on the real axis alone."
                )
            return log_mean_exp(*zip(*((w, one._log_moment(z, direction)) for w, one in self._members), strict=True))
        if self.rate == 1:
            return self._whole._log_moment(z, direction)
        value = np.empty_like(z)
        small = z.real <= SMALL_ORDER
        if small.any():
            rule = self._rule(float(z.real[small].max()), float(np.abs(z.imag).max()))
            if np.iscomplexobj(z):
                value[small] = rule.complex_cumulant(z[small].astype(np.complex128))
            else:
                value[small] = rule.real_cumulant(z[small].real)
        if not small.all():
            if np.iscomplexobj(z):
                raise NumericalError(f"Batches of fixed size are not resolved at order {z.real.max() + 1.0:g}.")
            value[~small] = self._far_moments(z[~small].real)
        return value

    def _max_loss(self, direction: str) -> float:
        return math.inf

    @property
    def _whole(self) -> Gaussian:
        """What a batch of all records costs."""
        noise = self._replaced.noise_multiplier if self.relation == REPLACE_ONE else self._noise
        return Gaussian(noise if self.group_size == 1 else math.nextafter(noise / self.group_size, 0.0))

    def _law(self, direction: str) -> LossLaw:
        if self.is_tight or (self.group_size == 1 and self.rate == 1):  # also of a rate that is rounded up to one
            return replace(self._whole.law(), of=self, slopes=self._slopes)
        if self.group_size > 1:
            return self._mixed_law(direction, {})
        if self.relation == REPLACE_ONE:
            cells: CellsOf = partial(two_sided_cells, [(1.0, self._replaced.noise_multiplier)], self.rate)
            excess = partial(sampled_excess, self._replaced._excess, self.rate, REMOVE)
        else:
            cells, excess = partial(emptied_cells, self._noise, self.rate, direction), None
        falls = self.relation == REPLACE_ONE and self._is_resolved
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            ceiling=self._ceiling if falls else None,
            ceiling_is_costly=True,
            cells=cells,
            excess=excess,
            max_loss_is_least=True,
            seen=self.rate,
            fewest_falling=FEWEST_SEEN / self.rate,
            most_nodes=MOST_NODES_OF_LINES if falls else 0,
            is_attained=self.relation == REPLACE_ONE,
            lattice_precision=0.0 if self.relation == REPLACE_ONE else LATTICE_PRECISION,
            slopes=self._slopes,
        )

    @property
    def _slopes(self) -> Slopes | None:
        """The derivatives of K, where a record is replaced by another; by the noise over the clipping norm."""
        if self.relation != REPLACE_ONE or self.group_size > 1 or not self._is_resolved:
            return None

        def slopes(z: Numbers, values: Numbers) -> dict[str, Numbers]:
            found = replaced_slopes(self._replaced.noise_multiplier, self.rate, z, values)
            return {**found, "noise_multiplier": 0.5 * found["noise_multiplier"]}

        return slopes

    def _ceiling(self, t: float, s: Array) -> Array:
        r"""Ceilings of Re K from each ``t + is`` on.

        On an interval of length d the square of |M| / M(t) exceeds its values at the ends by at most
        :math:`E_t[L^2]\,d^2/4`; and from some s on :math:`|M| \le m_0 + V/s`, by one integration by parts.
        """
        noise, rate = self._replaced.noise_multiplier, self.rate
        if t > SMALL_ORDER:
            return np.full_like(s, math.inf)
        law = self._rule(t, 0.0)
        top = float(law.real_cumulant(np.array([t]))[0])
        n = law.values.size // 2
        u, log_mass, rest = law.values[:n], law.log_weights[:n], math.exp(law.log_weights[-1])
        v = log_mixture_inverse(rate, u)
        share = mixture_share(rate, v, u)
        slopes = 1.5 + noise * noise * v
        tilted = np.exp(log_mass + t * u - top)
        back = np.exp(log_mass - (t + 1.0) * u - top)
        square = float((tilted + back) @ (u * u)) * (1.0 + 1e-9) + 1e-300
        at_zero = noise / math.sqrt(2.0 * math.pi) * math.exp(-0.125 / noise / noise - top) / rate
        turns = tilted @ ((t + 2.0) + slopes / share) + back @ (abs(1.0 - t) + slopes / share)
        variation = 1.001 * (2.0 * at_zero + float(turns))
        rest *= math.exp(-top) * (1.0 + 1e-9)
        far = 2.0 * variation / max(1.0 - rest, 1e-3)
        # |M| is at least the rest less all else, which bounds the steps below; where they end too early nothing falls
        longest = math.sqrt((1.0 - max(2.0 * rest - 1.0, 0.0) ** 2 + LEAST_FALL) / square)
        last = min(float(s[0]) + MOST_POINTS * longest, max(far, float(s[0])) + longest)
        if rest + variation / last >= 1.0:
            return np.full_like(s, top + 1e-13 * abs(top))
        modulus = _Modulus(self, t, top)
        points, squares = [float(s[0])], [modulus.square(float(s[0]))]
        while points[-1] < far and len(points) < MOST_POINTS:
            step = math.sqrt(max(1.0 - squares[-1], LEAST_FALL) / square)
            steps = min(STEPS_AT_ONCE, MOST_POINTS - len(points), math.ceil((far - points[-1]) / step))
            following, more = modulus.squares(points[-1], step, steps)
            points += following
            squares += more
        ends, found = np.array(points), np.array(squares)
        beyond = (rest + variation / ends[-1]) ** 2
        between = np.maximum(found[1:], found[:-1]) + 0.25 * square * np.diff(ends) ** 2
        # what bounds a half-line bounds every one inside it
        bounds = np.maximum.accumulate(np.append(between, beyond)[::-1])[::-1]
        number = np.minimum(np.maximum(np.searchsorted(ends, s, side="right") - 1, 0), bounds.size - 1)
        return np.asarray(top + 0.5 * np.log(np.minimum(bounds[number], 1.0)) + 1e-13 * abs(top))

    def attack_law(self, direction: str) -> LossLaw:
        """Of real neighbours: all other records point away from the one that differs, or from all that differ."""
        if self.is_tight:
            return self.law(direction)
        if self.group_size > 1 and self.relation == ZERO_OUT:
            chances = {j: float(chance) for j, chance in self._chances.items()}
            return self._real_law(group_attack_cells(self._noise, chances, direction), direction)
        if self.group_size > 1:
            # fewer of them in a batch, by the rounding of their chances, make the attack weaker
            chances = {j: float(chance) * (1.0 - 4.0 * UNIT_ROUNDOFF) for j, chance in self._chances.items() if j}
            rest = math.fsum([1.0, *(-chance for chance in chances.values())])
            shifts = [0.0, *(2.0 * j for j in chances)]
            return MixtureOfGaussians(self._noise, shifts, [rest, *chances.values()]).law(direction)
        if self.relation == REPLACE_ONE:
            return _poisson_law(self, self._replaced, self._rate_below)
        return self._real_law(partial(emptied_attack_cells, self._noise, self._rate_below, direction), direction)

    def integrated_law(self, direction: str) -> LossLaw | None:
        """That of a Poisson sample, or, in both directions, of real neighbours that tell more with the record."""
        return self._integrated_laws.get(direction) if self.group_size > 1 else self._integrated_law

    @cached_property
    def _integrated_laws(self) -> Mapping[str, LossLaw]:
        """For a group, by direction, mixtures of those of one record; where one is missing, of what dominates it."""
        laws = {one: one._integrated_law for _, one in kept(self._members).parts}
        if self.rate == 1 or not any(laws.values()):
            return {}
        if all(laws.values()):
            return dict.fromkeys(self.directions, self._mixed_law(REMOVE, laws))
        return {direction: self._mixed_law(direction, laws) for direction in self.directions}

    def _mixed_law(self, direction: str, others: Mapping[FixedSizeSampled, LossLaw | None]) -> LossLaw:
        """That of a group, from the laws of its members, or others that stand for them."""
        members, rest = kept(self._members)
        if self.relation == REPLACE_ONE and self.rate < 1:  # the members differ in their noise alone
            noises = [(weight, one._replaced.noise_multiplier) for weight, one in members]
            cells: CellsOf = partial(noises_cells if others else two_sided_cells, noises, self.rate)
        else:
            cells = cells_of_mixture((weight, others.get(one) or one.law(direction)) for weight, one in members)
        # the last of the members costs more than any other
        known = [*members, (rest, self._members[-1][1])] if rest else members

        def log_moment(t: Numbers) -> Numbers:
            laws = [(weight, others.get(one) or one.law(direction)) for weight, one in known]
            return log_mean_exp(*zip(*((weight, law.log_moment(t)) for weight, law in laws), strict=True))

        return mixed_law(self, cells, rest, log_moment, seen=self.rate, precision=LATTICE_PRECISION)

    @cached_property
    def _integrated_law(self) -> LossLaw | None:
        """That of one record."""
        if self.rate == 1:
            return None
        if self.relation == REPLACE_ONE:
            law = _poisson_law(self, self._replaced, self.rate)
            slopes = None if law.slopes is None else partial(_of_the_whole_noise, law.slopes)
            return replace(law, slopes=slopes, lattice_precision=REPLACED_PRECISION)
        if not _is_rare_enough(self.rate, self._noise):
            return None
        cells = partial(emptied_attack_cells, self._noise, self.rate, REMOVE)
        return replace(self._real_law(cells, REMOVE), lattice_precision=LATTICE_PRECISION)

    def _real_law(self, cells: CellsOf, direction: str) -> LossLaw:
        """Of neighbours in whose batches what differs is twice as far from all other records as when it is empty."""
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            cells=cells,
            most_nodes=0,
            lattice_precision=ATTACK_PRECISION,
        )

    @cached_property
    def _rate_below(self) -> float:
        """The chance that a record is in the batch, not above it."""
        return math.nextafter(self.rate, 0.0)


@lru_cache(maxsize=MOST_REMEMBERED)
def _poisson_law(of: FixedSizeSampled, replaced: Gaussian, rate: float) -> LossLaw:
    """That of a Poisson sample, of a record that is replaced."""
    return one_record_law(of, replaced, rate, REMOVE)


def _of_the_whole_noise(slopes: Slopes, z: Numbers, values: Numbers) -> Mapping[str, Numbers]:
    """Derivatives by twice the noise of which they are known."""
    found = slopes(z, values)
    return {**found, "noise_multiplier": 0.5 * found["noise_multiplier"]}


def _is_rare_enough(rate: float, noise: float) -> bool:
    """Whether q (1 + exp(2 / sigma^2)) is at most one: docs/theory/fixed-size.md, Theorem A0."""
    exponent = 2.0 / noise / noise
    return exponent < 700.0 and rate * (1.0 + math.exp(exponent)) * (1.0 + 1e-12) <= 1.0


class _Modulus:
    """|M| over M(t), which is exp(top), on the line of t: one rule for all s of an octave."""

    def __init__(self, step: FixedSizeSampled, t: float, top: float) -> None:
        self._step, self._t, self._top = step, t, top
        self._octaves: dict[float, _Sizes] = {}
        self._turned: tuple[float, float, NDArray[np.complex128]] = (0.0, 0.0, np.empty(0, dtype=np.complex128))

    def square(self, s: float) -> float:
        """The square of |M(t + is)| / M(t), not below it."""
        return self.squares(0.0, s, 1)[1][0]

    def squares(self, first: float, step: float, number: int) -> tuple[list[float], list[float]]:
        """Evenly spaced s behind a first one, and the squares of |M(t + is)| / M(t) there, not below them."""
        points = [first + step * i for i in range(1, number + 1)]
        octave = 2.0 ** math.ceil(math.log2(points[-1]))
        if octave not in self._octaves:
            self._octaves[octave] = self._sizes(octave)
        sizes = self._octaves[octave]
        turn = np.exp(1j * (step * sizes.u))
        # the last turns of the row before are those of this one's first place
        turned = self._turned[2] if self._turned[:2] == (octave, first) else np.exp(1j * (first * sizes.u))
        squares = []
        for s in points:
            turned = turned * turn
            # losses come as u and -u
            found = math.hypot(sizes.rest + float(sizes.both @ turned.real), float(sizes.difference @ turned.imag))
            # rounding of the sizes, relative to exponents below 2^10, of the phases, and of each turn
            error = UNIT_ROUNDOFF * (2.0**12 + 16.0 * MOST_POINTS + 2.0 * s * sizes.moved) + sizes.left_out
            squares.append(min(found + error, 1.0) ** 2 + SQUARE_ERROR)
        self._turned = octave, points[-1], turned
        return points, squares

    def _sizes(self, octave: float) -> _Sizes:
        law = self._step._rule(self._t, octave)
        n = law.values.size // 2
        u, sizes = law.values[:n], np.exp(law.log_weights + self._t * law.values - self._top)
        both, difference = sizes[:n] + sizes[n : 2 * n], sizes[:n] - sizes[n : 2 * n]
        kept = both > LEFT_OUT / n
        return _Sizes(
            u=u[kept],
            both=both[kept],
            difference=difference[kept],
            rest=float(sizes[-1]),
            moved=float(both @ ((law.ulps[:n] + 4.0) * u)),
            left_out=1.001 * float(both[~kept].sum()),
        )


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    """Losses u, sums and differences of the sizes at u and -u, and the size at 0.

    Phases may be off by `moved`; sizes that add up to `left_out` are not among them.
    """

    u: Array
    both: Array
    difference: Array
    rest: float
    moved: float
    left_out: float


@lru_cache(maxsize=MOST_REMEMBERED)
def _law(noise: float, rate: float, t: float, s: float) -> TiltableLaw:
    r"""Losses log w under the mixture, -log w under Q, both where v > 0, and 0 with the mass that is left.

    In x the pair is N(1, noise^2) and N(0, noise^2), and v > 0 where x > 1/2.
    """
    spread = 1.0 / noise  # the standard deviation of v
    edges = panel_edges(noise, rate, t, s)
    if edges.size > MOST_PANELS:
        raise NumericalError(f"A batch with noise multiplier {2.0 * noise:g} would need {edges.size:,} panels.")
    v, weights = panel_rule(edges, POINTS)
    log_q = np.log(weights * noise / math.sqrt(2.0 * math.pi)) - 0.5 * (noise * v + 0.5 * spread) ** 2
    u = log_mixture(rate, v)
    ulps = log_mixture_ulps(rate, v, u)
    rest = (1.0 - rate) * math.erf(0.5 * spread * math.sqrt(0.5))  # the total variation, of those that are not drawn
    return TiltableLaw(
        np.concatenate([log_q + u, log_q, [math.log(rest)]]),
        np.concatenate([u, -u, [0.0]]),
        np.concatenate([ulps, ulps, [8.0]]),
    )
