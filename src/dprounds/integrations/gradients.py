"""Clipped sums of per-example gradients: what a round of noisy SGD releases, before its noise is added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.errors import NumericalError, ParameterError

__all__ = ["Array", "GradientSum", "LogisticGradients", "Lot", "PerExampleGradients", "clip_factors", "probabilities"]

Array: TypeAlias = NDArray[np.float64]
Lot: TypeAlias = NDArray[np.intp]


class GradientSum(Protocol):
    """The sum over a lot of per-example gradients, each scaled to norm at most `clip_norm` (one number per weight)."""

    def __call__(self, weights: Array, lot: Lot, clip_norm: float) -> Array:
        """Sum of the clipped gradients at `weights` of the records whose positions are in `lot`, which may be empty."""
        ...


def clip_factors(norms: Array, clip_norm: float, *, terms: int) -> Array:
    """Factors in (0, 1] that bring gradients of these norms to at most `clip_norm`.

    Guarantee
    ---------
    Raises, or scales every gradient to a norm of at most `clip_norm` in real numbers. The `norms` were rounded as sums
    of `terms` squares, so the bound is lowered by the largest error that this can cause.

    Parameters
    ----------
    norms
        Norms of the gradients, one per example.
    clip_norm
        The bound, in [1e-100, 1e100].
    terms
        Numbers in a gradient.
    """
    if not np.isfinite(norms).all():
        # the sensitivity is not bounded, so nothing is released
        raise NumericalError("A per-example gradient is not finite: no noise covers it. Lower learning_rate.")
    # a sum of n squares, its root, the quotient and the product round by less than (n + 4) 2^-53 of the norm together
    lowered = clip_norm * (1.0 - (terms + 8) * 2.0**-53)
    return lowered / np.maximum(norms, lowered)


class PerExampleGradients:
    """Clipped sums of gradients from a function that returns a row for every record of a lot."""

    def __init__(self, gradients: Callable[[Array, Lot], ArrayLike]) -> None:
        self.gradients = gradients

    def __call__(self, weights: Array, lot: Lot, clip_norm: float) -> Array:
        """Sum of the rows for `lot`, each scaled to norm at most `clip_norm`."""
        if not lot.size:
            return np.zeros_like(weights)
        rows = np.asarray(self.gradients(weights, lot), dtype=np.float64)
        if rows.shape != (lot.size, weights.size):
            raise ParameterError(
                f"gradients must return a row of {weights.size} numbers for each of the {lot.size} records in the lot, "
                f"got shape {rows.shape}. A sum over the lot cannot be clipped by example."
            )
        total: Array = clip_factors(np.sqrt(np.einsum("ij,ij->i", rows, rows)), clip_norm, terms=weights.size) @ rows
        return total


class LogisticGradients:
    """Clipped sums of the per-example gradients of logistic regression, without a matrix of them.

    A gradient is the outer product of a record's features (and a 1 for the intercept) with its residuals, so its norm
    is the product of theirs.

    Parameters
    ----------
    features
        One row per record; finite.
    labels
        Class of each record, an integer in [0, classes).
    classes
        Number of classes; for 2 there is one column of weights, else one for each.
    """

    def __init__(self, features: ArrayLike, labels: ArrayLike, *, classes: int = 2) -> None:
        given = np.asarray(features, dtype=np.float64)
        if given.ndim != 2 or not np.isfinite(given).all():
            raise ParameterError(f"features must be a matrix of finite numbers, got shape {given.shape}.")
        self.classes = _validate.count("classes", classes, least=2)
        self.labels = np.asarray(labels)
        if self.labels.shape != given.shape[:1] or self.labels.dtype.kind not in "iu":
            raise ParameterError(f"labels must be {len(given)} integers, got shape {self.labels.shape}.")
        if self.labels.size and not (self.labels.min() >= 0 and self.labels.max() < self.classes):
            raise ParameterError(
                f"labels must be in [0, {self.classes}), got {self.labels.min()}..{self.labels.max()}."
            )
        self.features = np.hstack([given, np.ones((len(given), 1))])
        with np.errstate(over="ignore"):
            self.norms = np.sqrt(np.einsum("ij,ij->i", self.features, self.features))
        if not np.isfinite(self.norms).all():
            raise ParameterError("features must have finite norms, got a row whose squares overflow.")
        for kept in (self.features, self.norms):
            kept.setflags(write=False)  # changed features would have other norms, and nothing would be clipped

    @property
    def columns(self) -> int:
        """Columns of weights: one for two classes."""
        return 1 if self.classes == 2 else self.classes

    @property
    def size(self) -> int:
        """Number of weights: features and intercept, for every column."""
        return int(self.features.shape[1]) * self.columns

    def __call__(self, weights: Array, lot: Lot, clip_norm: float) -> Array:
        """Sum of the gradients of `lot`, each scaled to norm at most `clip_norm`."""
        rows = self.features[lot]
        with np.errstate(over="ignore", invalid="ignore"):  # a score beyond the floats is refused below, by its norm
            scores = rows @ weights.reshape(rows.shape[1], self.columns)
            residuals = probabilities(scores)[:, -self.columns :]
        if self.columns == 1:
            residuals[:, 0] -= self.labels[lot]
        else:
            residuals[np.arange(lot.size), self.labels[lot]] -= 1.0
        norms = self.norms[lot] * np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        factors = clip_factors(norms, clip_norm, terms=weights.size)
        total: Array = (rows.T @ (residuals * factors[:, None])).ravel()
        return total


def probabilities(scores: Array) -> Array:
    """Probability of each class, from one score per class, or for two classes from one score per record."""
    full = np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
    shifted = np.exp(full - full.max(axis=1, keepdims=True))
    result: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return result
