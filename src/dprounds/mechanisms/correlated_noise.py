r"""Matrix mechanisms: noise that is correlated between steps, by the sensitivity of the encoder.

With G the sums of clipped gradients, one row for each step, C the encoder and Z independent normal noise, C G + Z is
released row by row. Training uses :math:`A C^{-1} (C G + Z)`, which is a post-processing: DP-FTRL, tree aggregation,
banded and buffered Toeplitz factorisations. docs/theory/matrix.md has the proofs.

These are constructors. What they return is a `Gaussian`, or a run of Poisson-sampled ones.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import NOISE_MULTIPLIER, Interval, choice, count, real, real_array, show
from dprounds.errors import NumericalError, ParameterError
from dprounds.mechanisms.base import ADD_REMOVE, RELATIONS, REPLACE_ONE, ZERO_OUT, Run
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.mechanisms.poisson_sampled import PoissonSampled
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["banded_matrix_mechanism", "matrix_mechanism", "matrix_sensitivity"]

Array = NDArray[np.float64]

ENTRY = Interval.parse("(-inf, inf)")

# --- What carries a proof.

# Units of rounding for each of the m terms of a sum, none of them negative, in any order: m - 1 are needed for the sums
# and three for what the terms are made of; all that follows counts as 16 terms.
UNITS_OF_A_TERM = 2.0

# --- What only limits time and memory.

# An encoder that is given as a matrix, or is made into one: its Gram matrix is computed.
MOST_DENSE_STEPS = 2048
MOST_STEPS = 10**8
# Additions of one sensitivity.
MOST_ADDITIONS = 2**31
# Rows of the Gram matrix that are maximised at once.
ROWS = 256
# Coefficients whose squares are added up in fractions.
FEW = 64


def matrix_sensitivity(
    encoder: ArrayLike,
    *,
    steps: int | None = None,
    participations: int | None = None,
    separation: int = 1,
    same_order: bool = False,
) -> float:
    r"""The L2 sensitivity of an encoder C: by how much one record, clipped to norm one, can move C G.

    Guarantee
    ---------
    Raises, or returns a number that is not below :math:`\max \|C u\|_F` over all u whose rows have norm at most one in
    the steps of one pattern of participations, and are zero in all others. Errs upward. Up to rounding it is attained
    for coefficients that are not negative and do not rise, for at most `separation` bands, and in the same order if
    :math:`C^T C` has no negative entry; else it may be larger.

    Parameters
    ----------
    encoder
        The coefficients :math:`c_0, c_1, \dots` of a lower triangular Toeplitz matrix, whose entry in row i and column
        j is :math:`c_{i-j}`; or a lower triangular matrix of at most 2048 rows.
    steps
        Rows of a Toeplitz matrix; by default as many as there are coefficients. Coefficients that are left out are 0.
    participations
        The most steps that a record takes part in, an integer in [1, inf); by default as many as fit.
    separation
        Any two of them are at least that many steps apart, an integer in [1, inf): the steps of an epoch, if every
        epoch goes through the data in the same order.
    same_order
        Whether they are exactly that many steps apart.

    Theorem
    -------
    docs/theory/matrix.md.

    Examples
    --------
    >>> round(matrix_sensitivity([1.0, 0.5, 0.25], steps=12, separation=4), 6)   # three participations
    1.984313
    """
    matrix = _checked_encoder(encoder, steps)
    n = matrix.shape[0] if matrix.ndim == 2 else _rows(matrix, steps)
    b = count("separation", separation, least=1)
    most = -(-n // b)
    k = most if participations is None else min(count("participations", participations, least=1), most)
    top = float(np.abs(matrix).max(initial=0.0))
    if not top:
        return 0.0
    exponent = math.frexp(top)[1]
    scaled = np.ldexp(matrix, -exponent)  # exact, but for what is nothing next to the largest entry
    dense = matrix.ndim == 2
    square = _dense_square(scaled, k, b, same_order) if dense else _toeplitz_square(scaled, n, k, b, same_order)
    root = _root_above(square)
    if (np.ldexp(scaled, exponent) != matrix).any():  # what was lost is less than the next double is away
        root = math.nextafter(root, math.inf)
    try:
        return math.ldexp(root, exponent)
    except OverflowError:
        raise NumericalError("The sensitivity of this encoder is beyond the range of doubles.") from None


def matrix_mechanism(
    noise_multiplier: float,
    encoder: ArrayLike,
    *,
    steps: int | None = None,
    participations: int | None = None,
    separation: int = 1,
    same_order: bool = False,
    relation: str = ADD_REMOVE,
) -> Gaussian:
    """All steps of a matrix mechanism without sampling: one Gaussian release, by the sensitivity of its encoder.

    Gradients may depend on all earlier outputs. The returned release costs no less than the mechanism; it costs as much
    where `matrix_sensitivity` is attained.

    Parameters
    ----------
    noise_multiplier
        The standard deviation of every entry of Z over the clipping norm, in (0, inf).
    encoder, steps, participations, separation, same_order
        As for `matrix_sensitivity`.
    relation
        Between which data sets: ``"add-remove"`` one record, or ``"zero-out"`` one; or ``"replace-one"``, which moves
        every sum twice as far.

    Theorem
    -------
    docs/theory/matrix.md.

    Examples
    --------
    Four epochs of 500 steps in the same order, with noise for running sums:

    >>> coefficients = [1.0]
    >>> for i in range(1, 2000):
    ...     coefficients.append(coefficients[-1] * (2 * i - 1) / (2 * i))
    >>> run = matrix_mechanism(10.0, coefficients, separation=500) * 1
    >>> round(run.epsilon(delta=1e-5), 4)
    1.7653
    """
    noise = real("noise_multiplier", noise_multiplier, NOISE_MULTIPLIER)
    distance = 2.0 if choice("relation", relation, RELATIONS) == REPLACE_ONE else 1.0
    sensitivity = matrix_sensitivity(
        encoder, steps=steps, participations=participations, separation=separation, same_order=same_order
    )
    return _gaussian(noise, distance * sensitivity)


def banded_matrix_mechanism(
    noise_multiplier: float,
    encoder: ArrayLike,
    *,
    sampling_rate: float,
    steps: int | None = None,
    groups: int | None = None,
    relation: str = ADD_REMOVE,
) -> Run:
    """All steps of a banded matrix mechanism whose batches are sampled by Poisson from one group after the other.

    The records are divided into `groups`, by a public rule that does not look at other records. Step i samples each
    record of group i, counted around, independently with probability `sampling_rate`. So a record's columns of the
    encoder have no row in common. The returned run costs no less than the mechanism.

    Parameters
    ----------
    noise_multiplier
        The standard deviation of every entry of Z over the clipping norm, in (0, inf).
    encoder, steps
        As for `matrix_sensitivity`.
    sampling_rate
        The probability, in [0, 1], with which a record of the group whose turn it is enters the batch. If a batch has B
        of n records on average, that is `groups` times B / n.
    groups
        An integer that is not below the bands of the encoder; by default as many as these.
    relation
        ``"add-remove"``, where a record that is added or removed does not move others to another group; or
        ``"zero-out"``.

    Theorem
    -------
    docs/theory/matrix.md.

    Examples
    --------
    >>> banded_matrix_mechanism(3.0, [1.0], steps=512, sampling_rate=0.1)  # one band: DP-SGD
    PoissonSampled(Gaussian(3.0), sampling_rate=0.1) * 512
    >>> run = banded_matrix_mechanism(3.0, [0.8, 0.6], steps=512, sampling_rate=0.2)
    >>> run.rounds, round(run.epsilon(delta=1e-6), 2)
    (256, 5.6)
    """
    noise = real("noise_multiplier", noise_multiplier, NOISE_MULTIPLIER)
    matrix = _checked_encoder(encoder, steps)
    n = matrix.shape[0] if matrix.ndim == 2 else _rows(matrix, steps)
    bands = _bands(matrix)
    turns = bands if groups is None else count("groups", groups, least=1)
    if turns < bands:
        raise ParameterError(
            f"groups must be at least the bands of the encoder, {bands}, got {turns}: else a record takes part twice "
            "within them."
        )
    norm = matrix_sensitivity(matrix, steps=n, participations=1)
    relation = choice("relation", relation, (ADD_REMOVE, ZERO_OUT))
    return PoissonSampled(_gaussian(noise, norm), sampling_rate, relation) * -(-n // turns)


def _gaussian(noise: float, sensitivity: float) -> Gaussian:
    """The noise over the sensitivity, not above it."""
    if not sensitivity:
        raise ParameterError("encoder must have an entry other than 0.")
    ratio = noise / sensitivity
    is_below = Fraction(ratio) * Fraction(sensitivity) <= Fraction(noise)
    return Gaussian(ratio if is_below else math.nextafter(ratio, 0.0))


def _checked_encoder(encoder: ArrayLike, steps: int | None) -> Array:
    """Coefficients, or a lower triangular matrix."""
    matrix = real_array("encoder", encoder, ENTRY)
    if matrix.ndim == 1 and matrix.size:
        return matrix[: _rows(matrix, steps)]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ParameterError(f"encoder must be a row of coefficients or a square matrix, got shape {matrix.shape}.")
    if matrix.shape[0] > MOST_DENSE_STEPS:
        raise ParameterError(
            f"encoder must have at most {MOST_DENSE_STEPS} rows, got {matrix.shape[0]}: give the coefficients of a "
            "Toeplitz matrix."
        )
    if steps is not None and count("steps", steps, least=1) != matrix.shape[0]:
        raise ParameterError(f"steps must be the {matrix.shape[0]} rows of the encoder, got {show(steps)}.")
    if np.triu(matrix, 1).any():
        raise ParameterError("encoder must be lower triangular: a step cannot depend on gradients that come later.")
    return matrix


def _rows(coefficients: Array, steps: int | None) -> int:
    return coefficients.size if steps is None else count("steps", steps, least=1, most=MOST_STEPS)


def _bands(matrix: Array) -> int:
    """Bands of the matrix, the main diagonal among them."""
    if matrix.ndim == 1:
        return int(np.flatnonzero(matrix)[-1]) + 1 if matrix.any() else 1
    rows, columns = np.nonzero(matrix)
    return int((rows - columns).max(initial=0)) + 1


def _root_above(square: Fraction | float) -> float:
    """A double that is not below the root, and at most two above it."""
    exact = Fraction(square)
    root = math.sqrt(float(exact))
    while Fraction(root) ** 2 < exact:
        root = math.nextafter(root, math.inf)
    return root


def _raised(value: float, terms: float) -> float:
    """A sum of so many terms, none of them negative, not below what it is without rounding."""
    return value * (1.0 + UNITS_OF_A_TERM * (terms + 16.0) * UNIT_ROUNDOFF)


def _toeplitz_square(c: Array, n: int, k: int, b: int, same_order: bool) -> Fraction | float:
    """An upper bound of the square of the sensitivity of a Toeplitz matrix whose largest coefficient is about one."""
    sizes = np.abs(c)
    one_sign = bool((c >= 0).all() or (c <= 0).all())
    falls = bool((np.diff(sizes) <= 0).all())
    # the worst pattern begins at once and goes on as soon as it can
    if k == 1 or _bands(c) <= b or (one_sign and (falls or same_order)):
        return _first_pattern_square(sizes, n, k, b)
    # no coefficient exceeds those that fall, which have no smaller sensitivity
    bound = _first_pattern_square(np.maximum.accumulate(sizes[::-1])[::-1], n, k, b)
    if n > MOST_DENSE_STEPS:
        return bound
    padded = np.append(c, np.zeros(n - c.size)) if c.size < n else c
    index = np.subtract.outer(np.arange(n), np.arange(n))
    return min(bound, _dense_square(np.where(index >= 0, padded[np.maximum(index, 0)], 0.0), k, b, same_order))


def _first_pattern_square(c: Array, n: int, k: int, b: int) -> Fraction | float:
    """The squared norm of the sum of the columns 0, b, 2b, ... of a Toeplitz matrix, k of them."""
    if k > 1 and min(k, -(-c.size // b)) * c.size > MOST_ADDITIONS:
        raise ParameterError("participations are too many for so many steps: this would take minutes.")
    if c.size <= b or k == 1:  # columns without a row in common, of which the last may be cut short
        last = c[: n - (k - 1) * b]
        if c.size <= FEW:
            whole, cut = (sum(Fraction(each) ** 2 for each in column.tolist()) for column in (c, last))
            return (k - 1) * whole + cut
        return _raised((k - 1) * float(c @ c) + float(last @ last), c.size + 2.0)
    rows = np.zeros(n)
    if k * b >= n:
        # as many as fit: sums along every b-th coefficient
        padded = np.zeros(-(-n // b) * b)
        padded[: c.size] = c
        rows = np.cumsum(padded.reshape(-1, b), axis=0).reshape(-1)[:n]
    else:
        for start in range(0, k * b, b):
            rows[start : start + c.size] += c[: n - start]
    return _raised(float(rows @ rows), n + 2.0 * k)


def _dense_square(matrix: Array, k: int, b: int, same_order: bool) -> float:
    """An upper bound of the square of the sensitivity of a matrix whose largest entry is about one."""
    n = matrix.shape[0]
    sizes = np.abs(matrix)
    # |C^T C|, and what rounding may have taken from it
    gram = np.abs(matrix.T @ matrix) + UNITS_OF_A_TERM * (n + 16.0) * UNIT_ROUNDOFF * (sizes.T @ sizes)
    if same_order:
        patterns = (np.arange(start, n, b)[:k] for start in range(n))
        return _raised(max(float(gram[np.ix_(pattern, pattern)].sum()) for pattern in patterns), float(k * k))
    # Each row of a pattern counts at most itself and the best others that go with it, each row its own.
    best = np.empty(n)
    most_others = k - 1 if k < -(-n // b) else k  # with the row itself no more fit than fit
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) < b
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        others = np.where(near[rows], 0.0, gram[rows])
        best[rows] = np.diagonal(gram)[rows] + _best_sum(others, most_others, b)
    return _raised(float(_best_sum(best[None, :], k, b)[0]), 4.0 * k)


def _best_sum(values: Array, k: int, b: int) -> Array:
    """For each row the largest sum of at most k entries, none negative, of which any two are b columns apart."""
    rows, n = values.shape
    if not k:
        return np.zeros(rows)
    if k >= -(-n // b):  # as many as fit: what is chosen from a column on, for all rows
        found = np.zeros((n + b, rows))
        for column in range(n - 1, -1, -1):
            np.maximum(found[column + 1], values[:, column] + found[column + b], out=found[column])
        return np.asarray(found[0])
    found = np.zeros((rows, n + b))
    for _ in range(k):
        taken = np.zeros_like(found)
        taken[:, :n] = values + found[:, b:]
        found = np.maximum.accumulate(taken[:, ::-1], axis=1)[:, ::-1]
    return found[:, 0]
