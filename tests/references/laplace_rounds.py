r"""Delta of many Laplace rounds by residues of the moment function, in arbitrary precision.

:math:`M(z)^T` is a sum over j of :math:`\binom Tj (z+1)^{T-j} z^j (2z+1)^{-T}` times the exponential of
:math:`a((T-j)z - j(z+1))`. A term whose largest loss :math:`a(T-2j)` is below epsilon adds nothing to the integral over
a vertical line; the contour of any other is closed to the left, around the poles at 0, if j is 0, and at -1/2.
"""

from __future__ import annotations

from mpmath import binomial, exp, factorial, mp, mpf

__all__ = ["laplace_delta"]


def laplace_delta(scale: float, rounds: int, epsilon: float) -> mpf:
    """Delta of `rounds` rounds of Laplace noise of `scale`, for epsilon in [0, rounds / scale)."""
    # terms alternate, and exceed their sum by about the factor 4^T e^(T/b)
    with mp.workdps(60 + 2 * rounds + int(rounds / scale)):
        a, total = 1 / mpf(scale), mpf(0)
        for j in range(rounds // 2 + 1):
            y = a * (rounds - 2 * j) - mpf(epsilon)
            if y <= 0:
                break
            total += binomial(rounds, j) * exp(-j * a) * ((1 if j == 0 else 0) + _at_minus_half(rounds, j, y))
        return +total


def _at_minus_half(rounds: int, j: int, y: mpf) -> mpf:
    """The residue at -1/2 of (z+1)^(T-j-1) z^(j-1) (2z+1)^-T e^(zy): with u = z + 1/2, the coefficient of u^(T-1)."""
    half = mpf(1) / 2

    def series(constant: mpf, power: int) -> list[mpf]:
        """The coefficients of (u + constant)^power, for any integer power."""
        found = [constant**power]
        for i in range(rounds - 1):
            found.append(found[-1] * (power - i) / ((i + 1) * constant))
        return found

    left, right = series(half, rounds - j - 1), series(-half, j - 1)
    exponential = [y**i / factorial(i) for i in range(rounds)]
    product = [sum(left[i] * right[n - i] for i in range(n + 1)) for n in range(rounds)]
    return exp(-y / 2) / mpf(2) ** rounds * sum(product[n] * exponential[rounds - 1 - n] for n in range(rounds))
