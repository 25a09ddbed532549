r"""Logarithms and exponentials near one, on the real line and off it, to small error relative to their modulus.

NumPy's ``log1p`` of a complex number takes ``log(abs(1 + x))`` for its real part, which keeps no digit of it when
``x`` is small; its real one does not have this trouble. These functions keep real input real.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.cancellation import SMALL, half_square_series

__all__ = ["Numbers", "complex_expm1", "exp_minus_tangent_at", "log1p_at"]

Numbers = NDArray[np.float64] | NDArray[np.complex128]


def complex_expm1(x: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """``exp(x) - 1``, within a few ulps of its modulus; faster than NumPy's."""
    grown, half = np.expm1(x.real), np.sin(0.5 * x.imag)
    return np.asarray(grown - 2.0 * (1.0 + grown) * half * half + 1j * ((1.0 + grown) * np.sin(x.imag)))


def exp_minus_tangent_at(x: Numbers) -> Numbers:
    """``exp(x) - 1 - x`` at real or complex x, within a few ulps of the larger of its modulus and that of ``x``."""
    small = np.abs(x) < SMALL
    near = np.where(small, x, 0.0)
    grown: Numbers = complex_expm1(np.asarray(x, np.complex128)) if np.iscomplexobj(x) else np.expm1(x)
    return np.where(small, 0.5 * near * near * half_square_series(near), grown - x)


def log1p_at(x: Numbers) -> Numbers:
    """``log(1 + x)`` at real or complex x, principal branch; minus infinity where ``x`` is -1."""
    if not np.iscomplexobj(x):
        return np.log1p(x)
    a, b = x.real, x.imag
    small = np.abs(x) < 0.5
    near_a, near_b = np.where(small, a, 0.0), np.where(small, b, 0.0)
    # |1 + x|^2 - 1 = a (2 + a) + b^2, without the rounding of 1 + a
    near = 0.5 * np.log1p(near_a * (2.0 + near_a) + near_b * near_b)
    with np.errstate(divide="ignore"):  # a moment function may have a zero; its logarithm is then -inf, as it should
        far = np.log(np.hypot(1.0 + a, b))
    return np.where(small, near, far) + 1j * np.arctan2(b, 1.0 + a)
