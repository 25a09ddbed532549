"""Composition: releases that add up."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import SupportsIndex, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import choice, count, show
from dprounds.accounting.lattice import Part
from dprounds.accounting.loss_law import LossLaw
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import ADD, BOTH_DIRECTIONS, RELATIONS, REMOVE, Mechanism, Release
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, sum_above

__all__ = ["Run", "check_relations", "join", "repeat"]

Array = NDArray[np.float64]
Amount = TypeVar("Amount", float, Array, Numbers)

# A product and a sum for each part; a thousand parts round by at most 1000 * 2^-53 < 2e-13 of the total.
HAIR_PER_PART = 2.0**-52


@dataclass(frozen=True, eq=False, repr=False)
class Run(Accounted):
    """Mechanisms, each with its number of rounds, composed adaptively.

    A round may depend on the outputs before it; the mechanisms and their rounds are fixed beforehand.

    Written as ``step * rounds`` and ``run + run``. Equal mechanisms are merged and the order of the parts does not
    matter, so two runs are equal when they hold the same releases. The empty run costs nothing.

    Parameters
    ----------
    parts
        Pairs of a mechanism and its rounds, an integer in [0, inf).

    Theorem
    -------
    [Mir17, Proposition 1] for Rényi bounds; [ZDW22, Theorem 10] for pairs that dominate.

    Examples
    --------
    >>> from dprounds.mechanisms import Gaussian, Laplace
    >>> run = Gaussian(2.0) * 3 + Laplace(5.0)
    >>> run == Laplace(5.0) + Gaussian(2.0) + 2 * Gaussian(2.0)
    True
    >>> round(run.rdp(order=2.0), 6)
    0.787015
    """

    parts: tuple[tuple[Mechanism, int], ...] = ()

    def __post_init__(self) -> None:
        merged: dict[Mechanism, int] = {}
        try:
            if not isinstance(self.parts, (tuple, list)):
                raise TypeError
            pairs = [(mechanism, rounds) for mechanism, rounds in self.parts]
        except (TypeError, ValueError):
            raise ParameterError(f"parts must pair mechanisms with rounds, got {show(self.parts)}.") from None
        for mechanism, rounds in pairs:
            if not isinstance(mechanism, Mechanism):
                raise ParameterError(f"parts must pair mechanisms with rounds, got {show(mechanism)}.")
            if type(mechanism).__hash__ is None:
                name = type(mechanism).__name__
                raise ParameterError(
                    f"A mechanism must not change: declare {name} @dataclass(frozen=True, repr=False)."
                )
            merged[mechanism] = merged.get(mechanism, 0) + count("rounds", rounds)
        most = max(merged.values(), default=0)
        if not most <= sys.float_info.max:
            raise ParameterError(
                f"rounds must be at most {sys.float_info.max:.2g}, got one of {most.bit_length()} bits."
            )
        held = tuple((mechanism, rounds) for mechanism, rounds in merged.items() if rounds)
        object.__setattr__(self, "parts", held)
        check_relations(self.mechanisms)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The different mechanisms, in the order in which they first came."""
        return tuple(mechanism for mechanism, _ in self.parts)

    @property
    def rounds(self) -> int:
        """The number of releases."""
        return sum(rounds for _, rounds in self.parts)

    def __repr__(self) -> str:
        terms = [f"{mechanism!r} * {rounds}" for mechanism, rounds in self.parts]
        return " + ".join(terms) or "Run()"

    def __eq__(self, other: object) -> bool:
        return dict(self.parts) == dict(other.parts) if isinstance(other, Run) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.parts))

    @property
    def directions(self) -> tuple[str, ...]:
        """Both directions as soon as one part has both; each is composed by itself."""
        return BOTH_DIRECTIONS if any(ADD in part.directions for part in self.mechanisms) else (REMOVE,)

    @property
    def relation(self) -> str | None:
        """That of the parts that have one, which is the same for all of them."""
        return next((part.relation for part in self.mechanisms if part.relation is not None), None)

    @property
    def sampling(self) -> str | None:
        """That of the parts that sample; each way once, separated by commas."""
        return ", ".join(dict.fromkeys(part.sampling for part in self.mechanisms if part.sampling is not None)) or None

    @property
    def infinite_mass(self) -> float:
        """The probability that some round has infinite loss, one minus the product of those that it has not."""
        sources = [(part, rounds) for part, rounds in self.parts if part.infinite_mass > 0]
        if sum(rounds for _, rounds in sources) <= 1:  # no product, hence no rounding
            return sum((part.infinite_mass for part, _ in sources), start=0.0)
        return _probability_of_any((part.infinite_mass, rounds) for part, rounds in sources)

    @property
    def _reach(self) -> float:
        if any(part._reach >= 1 for part in self.mechanisms):
            return 1.0
        return _probability_of_any((part._reach, rounds) for part, rounds in self.parts)

    @property
    def has_moment_function(self) -> bool:
        """Whether every part has one."""
        return all(part.has_moment_function for part in self.mechanisms)

    def _total(self, cost: Callable[[Mechanism], Amount], nothing: Amount) -> Amount:
        """The sum over all rounds of what one round costs. This is the library's one product with a count of rounds."""
        with np.errstate(over="ignore", invalid="ignore"):  # inf is a bound; what is not a number `rdp` refuses
            return sum((float(rounds) * cost(part) for part, rounds in self.parts), start=nothing)

    def _rdp(self, orders: Array) -> Array:
        return self._outward(self._total(lambda part: np.asarray(part.rdp(orders)), np.zeros_like(orders)))

    def finite_rdp(self, orders: Array) -> Array:
        """The Rényi bound given that no round's loss is infinite, a sum as well, and never above the largest loss."""
        total = self._outward(self._total(lambda part: part.finite_rdp(orders), np.zeros_like(orders)))
        return np.minimum(total, max(map(self._max_loss, self.directions)))

    def _outward(self, total: Array) -> Array:
        """A total moved past the rounding of its sum; nothing stays nothing."""
        return np.where(total > 0, above(total, (len(self.mechanisms) * HAIR_PER_PART) * total), total)

    def law(self, direction: str = REMOVE) -> LossLaw:
        """One direction of the whole; no part that contradicts itself hides behind the others."""
        self._refuse_contradictions()
        return super().law(direction)

    def _refuse_contradictions(self) -> None:
        for part in self.mechanisms:
            part._refuse_contradictions()

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        nothing: Numbers = np.zeros_like(z)
        return self._total(lambda part: cast(Numbers, part.log_moment(z, _of(part, direction))), nothing)

    def _max_loss(self, direction: str) -> float:
        return sum_above([part._max_loss_of(rounds, _of(part, direction)) for part, rounds in self.parts])

    @property
    def _max_loss_is_least(self) -> bool:
        """Whether those of all parts are: in the direction of the dearest one, all rounds may have theirs."""
        return all(part._max_loss_is_least for part in self.mechanisms)

    @property
    def _response_loss(self) -> float | None:
        """That of all parts, if they have the same."""
        losses = {part._response_loss for part in self.mechanisms}
        return losses.pop() if len(losses) == 1 else None

    @property
    def _lacks_noise(self) -> bool:
        """Whether any part does."""
        return any(part._lacks_noise for part in self.mechanisms)

    @property
    def _is_dear(self) -> bool:
        """Whether any part is."""
        return any(part._is_dear for part in self.mechanisms)

    @property
    def _falls(self) -> bool:
        """Whether any part does, and so the product."""
        return any(part._falls for part in self.mechanisms)

    @property
    def _has_cells(self) -> bool:
        """Whether every part's are known."""
        return all(part._has_cells for part in self.mechanisms)

    def _lattice_parts(self, direction: str) -> list[Part]:
        return [
            each._replace(rounds=rounds)
            for part, rounds in self.parts
            for each in part._lattice_parts(_of(part, direction))
        ]

    def _ceiling(self, t: float, s: Array, direction: str) -> Array:
        return self._total(lambda part: part._ceiling(t, s, _of(part, direction)), np.zeros_like(s))

    def _fewest_rounds(self) -> float:
        return min((rounds * part._fewest_rounds() for part, rounds in self.parts), default=math.inf)


def check_relations(parts: Iterable[Mechanism]) -> None:
    """Raise if parts speak of different neighbours: no guarantee holds for their composition."""
    found: dict[str, Mechanism] = {}
    for part in parts:
        if part.relation is not None:
            found.setdefault(choice("relation", part.relation, RELATIONS), part)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise UnsupportedError(
            f"{show(first)} and {show(second)} cannot be added up: the first counts data sets as neighbours by "
            f"{one}, the second by {other}. Account for them separately, or describe both by one relation."
        )


def _of(part: Mechanism, direction: str) -> str:
    """The direction of a part in a run that is composed in `direction`: a symmetric part has one for both."""
    return direction if direction in part.directions else REMOVE


def _probability_of_any(chances: Iterable[tuple[float, int]]) -> float:
    """The probability that any of many independent things happens, each tried as often as its count says.

    Guarantee
    ---------
    Not below the truth, and `least_mass` of it is not above the truth. A count, a logarithm and their product round by
    4 units, their sum, which `fsum` rounds once however many there are, by one, and the exponential by 2; the
    probability moves by at most as many units.
    """
    # below -10,000 the exponential is 0 in any case
    log_none = math.fsum(
        max(float(times) * math.log1p(-chance), -1e4) if chance < 1 else -math.inf for chance, times in chances
    )
    found = np.array(-math.expm1(log_none))
    return min(float(above(found, 8.0 * UNIT_ROUNDOFF * found)), 1.0)


def _as_run(release: Release) -> Run:
    """A mechanism is a run of one round."""
    if isinstance(release, Run):
        return release
    if isinstance(release, Mechanism):
        return Run(((release, 1),))
    raise TypeError(f"a release is a mechanism or a run, not {type(release).__name__}")


def repeat(release: Release, rounds: SupportsIndex) -> Run:
    """`release`, `rounds` times."""
    times = count("rounds", cast(int, rounds))
    return Run(tuple((part, once * times) for part, once in _as_run(release).parts))


def join(first: Release, second: Release) -> Run:
    """Both releases."""
    return Run((*_as_run(first).parts, *_as_run(second).parts))
