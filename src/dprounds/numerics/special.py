"""SciPy's special functions, loaded when one of them is first called.

To load them takes a third of the time in which a command answers, and most questions need none.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.complex_plane import Numbers

__all__ = ["erfc", "log_ndtr", "ndtr"]

Array = NDArray[np.float64]


@cache
def _scipy() -> ModuleType:
    return import_module("scipy.special")


def erfc(x: Numbers) -> Numbers:
    """Twice the normal tail beyond x times the root of two, and its continuation to complex numbers."""
    return np.asarray(_scipy().erfc(x))


def ndtr(x: Array) -> Array:
    """The normal distribution function."""
    return np.asarray(_scipy().ndtr(x))


def log_ndtr(x: Numbers) -> Numbers:
    """Its logarithm, and the continuation of that to complex numbers."""
    return np.asarray(_scipy().log_ndtr(x))
