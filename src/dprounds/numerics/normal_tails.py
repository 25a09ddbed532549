"""Tails of a normal law at many points, from Mills' ratio: SciPy's take long to load."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds.numerics.normal import CENTRE, RATIO_SERIES

__all__ = ["log_upper_tail", "upper_tail"]

Array = NDArray[np.float64]

LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def upper_tail(x: ArrayLike) -> Array:
    """The probability of a normal value above x."""
    at = np.asarray(x, dtype=np.float64)
    tail = np.exp(_log_tail(np.abs(at)))
    return np.asarray(np.where(at < 0, 1.0 - tail, tail))


def log_upper_tail(x: ArrayLike) -> Array:
    """Its logarithm."""
    at = np.asarray(x, dtype=np.float64)
    log_tail = _log_tail(np.abs(at))
    return np.asarray(np.where(at < 0, np.log1p(-np.exp(log_tail)), log_tail))


def _log_tail(x: Array) -> Array:
    """The logarithm of the tail beyond x >= 0: (1 + x) times Mills' ratio is a Chebyshev series."""
    y = (x - CENTRE) / (x + CENTRE)
    following, here = np.zeros_like(x), np.zeros_like(x)
    for coefficient in RATIO_SERIES[:0:-1]:
        following, here = here, 2.0 * y * here - following + coefficient
    scaled = y * here - following + RATIO_SERIES[0]
    return np.asarray(np.log(scaled / (1.0 + x)) - 0.5 * x * x - LOG_ROOT_TWO_PI)
