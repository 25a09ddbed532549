"""Gradients are right, and clipped by example whatever the rounding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprounds import NumericalError, ParameterError
from dprounds.integrations.noisy_sgd import LogisticGradients, PerExampleGradients, clip_factors
from tests.integrations.noisy_training import training


@pytest.mark.parametrize("classes", [2, 4])
def test_logistic_gradients_are_the_derivatives_of_the_log_loss(classes: int) -> None:
    generator = np.random.default_rng(1)
    features, labels = generator.normal(size=(6, 3)), generator.integers(classes, size=6)
    gradients = LogisticGradients(features, labels, classes=classes)
    weights, lot = generator.normal(size=gradients.size), np.array([4, 1, 5])

    def loss(at: Any) -> float:
        scores = np.hstack([features[lot], np.ones((3, 1))]) @ at.reshape(4, -1)
        scores = np.hstack([np.zeros((3, 1)), scores]) if classes == 2 else scores
        return float((np.log(np.exp(scores).sum(1)) - scores[np.arange(3), labels[lot]]).sum())

    slopes = [(loss(weights + 1e-5 * unit) - loss(weights - 1e-5 * unit)) / 2e-5 for unit in np.eye(gradients.size)]
    np.testing.assert_allclose(gradients(weights, lot, 1e6), slopes, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 50.0])
def test_clipping_without_a_matrix_of_gradients_equals_clipping_each(classes: int, clip_norm: float) -> None:
    generator = np.random.default_rng(2)
    features, labels = generator.normal(size=(40, 5)), generator.integers(classes, size=40)
    gradients = LogisticGradients(features, labels, classes=classes)
    by_example = PerExampleGradients(
        lambda weights, lot: np.array([gradients(weights, np.array([i]), 1e6) for i in lot])
    )
    weights, lot = generator.normal(size=gradients.size), np.arange(0, 40, 3)
    np.testing.assert_allclose(
        gradients(weights, lot, clip_norm), by_example(weights, lot, clip_norm), rtol=1e-12, atol=1e-14
    )


def test_no_scaled_gradient_is_longer_than_the_bound_in_exact_arithmetic() -> None:
    generator = np.random.default_rng(3)
    for size in (1, 2, 7, 100):
        rows = generator.normal(size=(50, size)) * 10.0 ** generator.uniform(-3, 6, size=(50, 1))
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        factors = clip_factors(norms, 0.1, terms=size)
        for row, factor in zip(rows, factors, strict=True):
            squares = sum(Fraction(float(value)) ** 2 for value in row) * Fraction(float(factor)) ** 2
            assert squares <= Fraction(0.1) ** 2


def test_short_gradients_are_left_as_they_are() -> None:
    assert clip_factors(np.array([0.0, 0.5, 2.0]), 1.0, terms=3).tolist() == pytest.approx([1.0, 1.0, 0.5], rel=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_never_released_but_its_round_is_recorded(bad: float) -> None:
    run = training(
        PerExampleGradients(lambda weights, lot: np.full((lot.size, 3), bad)), sampling_rate=1.0, epsilon=9.0
    )
    with pytest.raises(NumericalError, match="not finite"):
        run.run(1)
    assert run.rounds == 0
    assert run.weights.tolist() == [0.0, 0.0, 0.0]
    assert sum(rounds for _, rounds in run.accountant.run.parts) == 1


def test_scores_beyond_the_range_of_doubles_are_refused() -> None:
    gradients = LogisticGradients(np.full((2, 1), 1e150), [0, 1])
    with pytest.raises(NumericalError, match="not finite"):
        gradients(np.array([1e300, 0.0]), np.array([0, 1]), 1.0)


def test_a_sum_in_place_of_rows_is_refused() -> None:
    summed = PerExampleGradients(lambda weights, lot: np.zeros(3))
    with pytest.raises(ParameterError, match="cannot be clipped by example"):
        training(summed, sampling_rate=1.0, epsilon=9.0).run(1)


def test_a_gradient_sum_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(NumericalError, match="must return 3 finite numbers"):
        training(lambda weights, lot, clip_norm: np.zeros((1, 3))).run(1)


@pytest.mark.parametrize(
    ("features", "labels", "classes"),
    [
        ([[np.nan]], [0], 2),
        ([[1e200]], [0], 2),
        ([1.0], [0], 2),
        ([[1.0]], [2], 2),
        ([[1.0]], [-1], 2),
        ([[1.0]], [0.5], 2),
        ([[1.0]], [0, 1], 2),
        ([[1.0]], [0], 1),
    ],
)
def test_invalid_features_and_labels_are_refused(features: Any, labels: Any, classes: int) -> None:
    with pytest.raises(ParameterError):
        LogisticGradients(features, labels, classes=classes)


def test_features_and_their_norms_stay_together() -> None:
    gradients = LogisticGradients([[1.0]], [0])
    for kept in (gradients.features, gradients.norms):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 100.0


def test_gradients_of_nothing_are_left_as_they_are() -> None:
    """The quotient of a large bound and the norm 0 would overflow, and warnings are errors here."""
    factors = clip_factors(np.array([0.0, 5e-324, 1.0, 2e6]), 1e6, terms=3)
    assert factors[:3].tolist() == [1.0, 1.0, 1.0]
    assert 0.5 * (1 - 1e-14) < factors[3] < 0.5
