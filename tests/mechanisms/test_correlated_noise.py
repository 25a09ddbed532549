"""Sensitivities of encoders, against all patterns of participations, exact fractions and what jax_privacy tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import (
    Gaussian,
    ParameterError,
    PoissonSampled,
    banded_matrix_mechanism,
    matrix_mechanism,
    matrix_sensitivity,
)

Array = NDArray[np.float64]


def patterns(n: int, k: int, b: int, same_order: bool) -> Iterator[tuple[int, ...]]:
    """All patterns of one to k participations in n steps, at least, or exactly, b apart."""
    for size in range(1, k + 1):
        for chosen in itertools.combinations(range(n), size):
            gaps = [later - earlier for earlier, later in itertools.pairwise(chosen)]
            if all(gap == b if same_order else gap >= b for gap in gaps):
                yield chosen


def worst_square(matrix: Array, k: int, b: int, same_order: bool) -> Fraction:
    """The largest squared norm of C u over all patterns and all signs of numbers u, in fractions."""
    exact = [[Fraction(entry) for entry in row] for row in matrix.tolist()]
    worst = Fraction(0)
    for pattern in patterns(len(exact), k, b, same_order):
        for signs in itertools.product((1, -1), repeat=len(pattern) - 1):
            turned = dict(zip(pattern, (1, *signs), strict=True))
            worst = max(worst, Fraction(sum(sum(row[j] * s for j, s in turned.items()) ** 2 for row in exact)))
    return worst


def toeplitz(c: Array, n: int) -> Array:
    padded = np.append(c, np.zeros(n))[:n]
    return np.array([[padded[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


RNG = np.random.default_rng(5)
COEFFICIENTS = {
    "one": np.array([0.3]),
    "falls": np.array([1.0, 0.7, 0.3, 0.1, 0.02, 0.01, 0.001]),
    "flat": np.ones(7),
    "banded": np.array([0.9, -0.5]),
    "signs": np.array([1.0, -0.5, 0.3, -0.2, 0.1]),
    "rises": np.array([0.1, 0.5, 1.0]),
    "random": RNG.normal(size=7),
    "huge": np.array([3e150, 1e150, 1e140]),
    "apart": np.array([2.0**150, 1e-310]),
    "tiny": np.array([3e-170, 2e-170, 1e-320]),
}


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize(("k", "b"), [(1, 1), (3, 2), (7, 1), (2, 3)])
@pytest.mark.parametrize("same_order", [False, True])
def test_no_pattern_moves_an_encoder_further(name: str, k: int, b: int, same_order: bool) -> None:
    c, n = COEFFICIENTS[name], 7
    matrix = toeplitz(c, n)
    worst = worst_square(matrix, k, b, same_order)
    for encoder, steps in ((c, n), (matrix, None)):
        found = matrix_sensitivity(encoder, steps=steps, participations=k, separation=b, same_order=same_order)
        assert Fraction(found) ** 2 >= worst  # no tolerance
        falls = bool((c >= 0).all() and (np.diff(c) <= 0).all()) and encoder is c
        if falls or k == 1 or c.size <= b or (same_order and (c >= 0).all()):
            assert Fraction(found) ** 2 <= worst * (1 + Fraction(1, 10**13))  # and it is attained


def test_few_coefficients_are_added_up_without_rounding() -> None:
    assert matrix_sensitivity([1.0], steps=16, participations=9) == 3.0
    assert matrix_sensitivity([3.0, 4.0], steps=9, separation=5) == math.sqrt(50.0)


def test_any_matrix_is_bounded() -> None:
    for n, k, b in ((5, 2, 2), (6, 3, 1), (6, 2, 3), (6, 6, 2)):
        for _ in range(4):
            matrix = np.tril(RNG.normal(size=(n, n)))
            for same_order in (False, True):
                found = matrix_sensitivity(matrix, participations=k, separation=b, same_order=same_order)
                assert Fraction(found) ** 2 >= worst_square(matrix, k, b, same_order)
    positive = np.tril(RNG.uniform(size=(6, 6)))
    found = matrix_sensitivity(positive, participations=2, separation=3, same_order=True)
    assert found == pytest.approx(math.sqrt(worst_square(positive, 2, 3, True)), rel=1e-13)


def test_vectors_in_any_direction_move_it_no_further() -> None:
    for _ in range(50):
        matrix = np.tril(RNG.normal(size=(6, 6)))
        bound = matrix_sensitivity(matrix, participations=3, separation=2)
        for pattern in patterns(6, 3, 2, False):
            u = np.zeros((6, 3))
            u[list(pattern)] = (directions := RNG.normal(size=(len(pattern), 3))) / np.linalg.norm(
                directions, axis=1, keepdims=True
            )
            assert np.linalg.norm(matrix @ u) <= bound


def test_long_encoders_agree_with_matrices() -> None:
    c = np.sqrt(np.linspace(1.0, 0.001, 300))
    for k, b in ((None, 40), (3, 40), (300, 1), (5, 7)):
        short = matrix_sensitivity(c, participations=k, separation=b)
        columns = toeplitz(c, 300)[:, ::b][:, :k]
        assert short == pytest.approx(float(np.linalg.norm(columns.sum(axis=1))), rel=1e-12)
        assert short <= matrix_sensitivity(toeplitz(c, 300), participations=k, separation=b) * (1 + 1e-12)
    assert matrix_sensitivity([1.0, -0.5], steps=10**6, separation=10**5) == pytest.approx(math.sqrt(12.5))
    # signs, and too long for a matrix: by coefficients that do not rise
    signs = np.array([1.0, -0.5, 0.25])
    assert matrix_sensitivity(signs, steps=3000, separation=2) >= matrix_sensitivity(signs, steps=2000, separation=2)


def test_what_jax_privacy_tests() -> None:
    """The numbers of its tests of sensitivities and of amplified banded mechanisms (version of 2026)."""
    banded = np.array([[1.0, 0, 0, 0], [2.0, 1, 0, 0], [0, 1.0, 1, 0], [0, 0, 1.0, -6]])
    single = np.array([[1.0, 0, 0, 0], [2.0, 1, 0, 0], [0, 1.0, 1, 0], [0, 0, 3.0, -6]])
    dense = np.array([[1.0, 0, 0, 0], [2.0, 1, 0, 0], [0.5, 1.0, 1, 0], [0.4, 0, 1.0, -6]])
    assert matrix_sensitivity(single, participations=1) == pytest.approx(6.0, rel=1e-13)
    assert matrix_sensitivity(single[:3, :3], participations=1) == pytest.approx(math.sqrt(5), rel=1e-13)
    assert matrix_sensitivity([[3.0]], participations=1) == pytest.approx(3.0, rel=1e-13)
    diagonal = np.diag([0.0, 3.0, 0.0, 1.0, 2.0])
    assert matrix_sensitivity(diagonal, separation=2) == pytest.approx(math.sqrt(13), rel=1e-13)
    assert matrix_sensitivity(diagonal, separation=2, participations=1) == pytest.approx(3.0, rel=1e-13)
    assert matrix_sensitivity(banded, separation=2, participations=1) == pytest.approx(6.0, rel=1e-13)
    for separation in (2, 3):
        assert matrix_sensitivity(banded, separation=separation) == pytest.approx(math.sqrt(41), rel=1e-13)
    assert matrix_sensitivity(dense) == pytest.approx(math.sqrt(np.abs(dense.T @ dense).sum()), rel=1e-13)
    for epochs in (1, 2, 4, 8, 16):
        assert matrix_sensitivity(np.eye(16), separation=16 // epochs, same_order=True) == pytest.approx(epochs**0.5)
    for n, k in itertools.product((1, 2, 3, 5, 11), (1, 4, 11)):
        expected = float(np.linalg.norm(np.tri(n)[:, :k].sum(axis=1)))
        assert matrix_sensitivity(np.ones(n), participations=k) == pytest.approx(expected, rel=1e-13)
        assert matrix_sensitivity([1.0], steps=n, participations=k) == pytest.approx(math.sqrt(min(n, k)), rel=1e-13)
    # 128 iterations, 16 bands, a probability of 0.01 inside a group, a strategy of column norm one
    run = banded_matrix_mechanism(1.0, [1.0], steps=128, groups=16, sampling_rate=0.01)
    assert run == PoissonSampled(Gaussian(1.0), 0.01) * 8
    dpsgd = banded_matrix_mechanism(3.0, [1.0], steps=512, sampling_rate=0.1)
    assert round(dpsgd.epsilon(delta=1e-6), 2) == 3.77


def test_a_mechanism_is_one_gaussian_of_no_more_noise() -> None:
    found = matrix_mechanism(3.0, [1.0, 0.5, 0.25], steps=12, separation=4)
    assert Fraction(found.noise_multiplier) ** 2 * 3 * Fraction(21, 16) <= 9
    assert found.noise_multiplier == pytest.approx(3.0 / math.sqrt(3 * 21 / 16), rel=1e-14)
    twice = matrix_mechanism(3.0, [1.0, 0.5, 0.25], steps=12, separation=4, relation="replace-one")
    assert twice.noise_multiplier == pytest.approx(0.5 * found.noise_multiplier, rel=1e-15)
    assert matrix_mechanism(2.5, [1.0]) == Gaussian(2.5)


def test_banded_mechanisms_sample_one_group_after_the_other() -> None:
    run = banded_matrix_mechanism(2.0, [0.75, 0.25, 0.0], steps=101, sampling_rate=0.1, relation="zero-out")
    ((step, rounds),) = run.parts
    assert (rounds, run.relation, run.sampling) == (51, "zero-out", "poisson")  # two bands
    assert isinstance(step, PoissonSampled)
    assert step.mechanism.noise_multiplier == pytest.approx(2.0 / math.sqrt(0.625), rel=1e-14)  # type: ignore[attr-defined]
    matrix = np.diag([1.0, 2.0, 1.0]) + np.diag([0.5, 0.5], -1)
    ((step, rounds),) = banded_matrix_mechanism(2.0, matrix, sampling_rate=0.1, groups=3).parts
    assert rounds == 1
    assert step.mechanism.noise_multiplier == pytest.approx(2.0 / math.sqrt(4.25), rel=1e-13)  # type: ignore[attr-defined]


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_no_attack_on_a_banded_mechanism_passes_its_cost(p: float) -> None:
    """Two steps of two groups' turns, both outputs on a grid: the density of C G + Z with and without the record."""
    sigma, c = 1.3, np.array([1.0, 0.6])
    run = banded_matrix_mechanism(sigma, c, steps=3, sampling_rate=p)  # the record of the first group: steps 0 and 2
    x = np.linspace(-6 * sigma, 2 + 6 * sigma, 61)
    grid = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1)
    matrix = toeplitz(c, 3)

    def density(mean: Array) -> Array:
        return np.asarray(
            np.exp(-0.5 * (((grid - mean) / sigma) ** 2).sum(axis=-1)) / (sigma * math.sqrt(math.tau)) ** 3
        )

    with_it = np.zeros(grid.shape[:3])
    for coins in itertools.product((0, 1), repeat=2):
        chance = math.prod(p if coin else 1 - p for coin in coins)
        with_it += chance * density(matrix @ np.array([coins[0], 0.0, coins[1]]))
    without = density(np.zeros(3))
    cell = (x[1] - x[0]) ** 3
    for epsilon in (0.0, 0.5, 1.5):
        for one, other in ((with_it, without), (without, with_it)):
            attack = float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum()) * cell
            assert attack <= run.delta(epsilon=epsilon) + 1e-3  # a sum over a grid stands for the integral


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ({"encoder": [1.0, math.nan]}, "encoder must be in"),
        ({"encoder": [math.inf]}, "encoder must be in"),
        ({"encoder": []}, "encoder must be a row of coefficients or a square matrix"),
        ({"encoder": [[1.0, 2.0]]}, "encoder must be a row of coefficients or a square matrix"),
        ({"encoder": [[1.0, 2.0], [0.0, 1.0]]}, "encoder must be lower triangular"),
        ({"encoder": [[1.0]], "steps": 2}, "steps must be the 1 rows of the encoder, got 2"),
        ({"encoder": [1.0], "steps": 0}, "steps must be an integer"),
        ({"encoder": [1.0], "separation": 0}, "separation must be an integer"),
        ({"encoder": [1.0], "participations": 0}, "participations must be an integer"),
        ({"encoder": [0.0]}, "encoder must have an entry other than 0"),
        ({"encoder": [1.0], "relation": "other"}, "relation must be one of"),
        ({"encoder": [1.0], "noise_multiplier": 0.0}, "noise_multiplier must be in"),
    ],
)
def test_what_is_no_encoder_is_refused_in_one_line(words: dict[str, object], refusal: str) -> None:
    given: dict[str, object] = {"noise_multiplier": 1.0, **words}
    with pytest.raises(ParameterError, match=refusal):
        matrix_mechanism(**given)  # type: ignore[arg-type]


def test_fewer_groups_than_bands_and_replaced_records_are_refused() -> None:
    with pytest.raises(ParameterError, match="groups must be at least the bands of the encoder, 2, got 1"):
        banded_matrix_mechanism(1.0, [1.0, 0.5], steps=9, sampling_rate=0.1, groups=1)
    with pytest.raises(ParameterError, match="relation must be one of"):
        banded_matrix_mechanism(1.0, [1.0, 0.5], steps=9, sampling_rate=0.1, relation="replace-one")
    with pytest.raises(ParameterError, match="sampling_rate must be in"):
        banded_matrix_mechanism(1.0, [1.0, 0.5], steps=9, sampling_rate=1.2)
