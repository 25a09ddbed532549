r"""Several records of one person in batches of fixed size: how many of them a batch holds, and mixtures of laws.

Given that a batch holds some of the person's k records, the chance that it holds j is that of a hypergeometric law; the
round is then dominated by a mixture of what j times the clipping norm costs. docs/theory/loaders.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import Cells, CellsOf
from dprounds.accounting.law import LOG_MOMENT_ERROR, LossLaw
from dprounds.numerics.complex_plane import Numbers, complex_expm1, log1p_at
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = [
    "UNITS_OF_MEAN",
    "Part",
    "cells_of_mixture",
    "chances_in_batch",
    "error_of_mixture",
    "kept",
    "log_mean_exp",
    "mean_of_ceilings",
    "mixed_cells",
    "mixed_law",
]

Array = NDArray[np.float64]
T = TypeVar("T")

# --- What carries a proof.

# Units of rounding of a weight, which is a quotient of integers rounded once, and of its product and sum with others.
WEIGHT_UNITS = 4.0
# Units of rounding of a mean of a few numbers or exponentials, relative to the sizes of what it is summed from.
UNITS_OF_MEAN = 32.0

# --- What only tunes speed and tightness.

# Numbers of records in a batch that are together rarer than this, the largest ones, count as a loss without end.
RAREST = 1e-50
# Above this an exponential may be beyond the doubles, and a mean of them is taken relative to the largest.
LARGEST_EXPONENT = 600.0


class Part(NamedTuple):
    """What one of the laws of a mixture weighs, and its cells."""

    weight: float
    cells: CellsOf


def chances_in_batch(batch: int, dataset: int, group: int) -> dict[int, Fraction]:
    """The chance of each number of a group's records in a batch, of those that are possible.

    Examples
    --------
    >>> chances_in_batch(2, 4, 2)
    {0: Fraction(1, 6), 1: Fraction(2, 3), 2: Fraction(1, 6)}
    """
    first, last = max(0, group + batch - dataset), min(group, batch)
    # relative to the first of them, by the quotient of neighbours
    relative = {first: Fraction(1)}
    for j in range(first, last):
        grows = Fraction((group - j) * (batch - j), (j + 1) * (dataset - group - batch + j + 1))
        relative[j + 1] = relative[j] * grows
    total = sum(relative.values())
    return {j: chance / total for j, chance in relative.items()}


class Kept(NamedTuple, Generic[T]):
    """Parts with their weights, of those that are not too rare; and what all others weigh together."""

    parts: list[tuple[float, T]]
    rest: float


def kept(parts: Sequence[tuple[float, T]]) -> Kept[T]:
    """The first of these parts, up to those that are so rare that they may count as a loss without end.

    Examples
    --------
    >>> parts, rest = kept([(0.5, "one"), (0.5, "two"), (2e-60, "three"), (2e-60, "four")])
    >>> parts, f"{rest:.3g}"
    ([(0.5, 'one'), (0.5, 'two')], '4e-60')
    """
    rest = np.append(np.cumsum([weight for weight, _ in parts][::-1])[::-1], 0.0)
    number = int(np.count_nonzero(rest > RAREST))
    return Kept(list(parts[:number]), float(rest[number]) * (1.0 + len(parts) * 2.0 * UNIT_ROUNDOFF))


def with_rest(cells_of: CellsOf, rest: float, edges: Array) -> Cells:
    """Cells of a mixture, of which a rest counts as a loss without end, whatever it weighs under Q."""
    found = cells_of(edges)
    p = found.p.copy()
    p[-1] += rest
    return found._replace(p=p)


def mixed_cells(parts: Sequence[Part], edges: Array) -> Cells:
    """Cells of a mixture of pairs, of which it is known which one it is: masses add up, as profiles do."""
    n = edges.size + 1
    p, q, p_error, q_error, blur = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), 0.0
    for weight, cells_of in parts:
        found = cells_of(edges)
        p, q = p + weight * found.p, q + weight * found.q
        p_error, q_error = p_error + weight * found.p_error, q_error + weight * found.q_error
        blur = max(blur, found.blur)
    units = (WEIGHT_UNITS + len(parts)) * UNIT_ROUNDOFF
    return Cells(p, q, p_error + units * p, q_error + units * q, blur)


def cells_of_mixture(laws: Iterable[tuple[float, LossLaw]]) -> CellsOf:
    """Those of laws, each with its weight."""
    return partial(mixed_cells, [Part(weight, law.cells) for weight, law in laws if law.cells is not None])


def mixed_law(
    of: object, cells: CellsOf, rest: float, log_moment: Callable[[Numbers], Numbers], *, seen: float, precision: float
) -> LossLaw:
    """The law of a mixture of pairs of which it is known which one it is, from above alone.

    Its cells are without those of a `rest`, whose weight may count as a loss without end.
    """
    return LossLaw(
        of=of,
        log_moment=log_moment,
        cells=partial(with_rest, cells, rest) if rest else cells,
        max_loss_is_least=True,
        seen=seen,
        most_nodes=0,
        is_attained=False,
        lattice_precision=precision,
    )


def log_mean_exp(weights: Sequence[float], exponents: Sequence[Numbers]) -> Numbers:
    """The logarithm of the mean of exponentials, for each column, to its own size, however small that is.

    The weights are those of numbers that sum to one, each rounded by itself: so it is one plus the mean of what the
    exponentials are above one, whatever the rounded weights sum to.
    """
    rows = cast(Numbers, np.array(exponents))
    means = np.array(weights)[:, None]
    top = rows.real.max(axis=0)
    is_small = top < LARGEST_EXPONENT
    near = np.where(is_small, rows, 0.0)
    grown: Numbers = complex_expm1(np.asarray(near, np.complex128)) if np.iscomplexobj(near) else np.expm1(near)
    small = log1p_at(cast(Numbers, (means * grown).sum(axis=0)))
    if is_small.all():
        return small
    return np.where(is_small, small, top + np.log((means * np.exp(rows - top)).sum(axis=0)))


def error_of_mixture(law: LossLaw, z: Numbers) -> Array:
    r"""Bounds on the errors of M(z) relative to M(Re z), of a mixture of laws each of which has the usual ones.

    The mean of :math:`|K_i(t)|`, each with its share of M(t), exceeds :math:`K(t)` by the relative entropy of those
    shares to the weights, and that is at most that of the law tilted by t: together they are at most :math:`tK'(t)`.
    """
    found = np.empty(z.shape)
    for t in np.unique(z.real).tolist():
        at = z.real == t
        saddle, s = (law * 1).expand(t), np.abs(z.imag[at])
        found[at] = LOG_MOMENT_ERROR * (saddle.steepest * (t + s) + 0.5 * saddle.square * s * s)
    return found


def mean_of_ceilings(weights: Sequence[float], rows: Sequence[Array]) -> Array:
    """Upper bounds of `log_mean_exp` of real rows, past its rounding."""
    found, size = (log_mean_exp(weights, each).real for each in (rows, [np.abs(row) for row in rows]))
    # relative to the exponentials less one that the mean is made of, and to the logarithm itself
    error = (
        UNITS_OF_MEAN
        * UNIT_ROUNDOFF
        * (np.expm1(np.minimum(size, 1.0)) * np.exp(-np.minimum(found, 0.0)) + np.abs(found))
    )
    return np.asarray(found + error)
