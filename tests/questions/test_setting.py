"""A setting makes the run that its words say, or says what is wrong with them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprounds import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
)
from dprounds.questions import MECHANISMS, QuestionError, Setting

MNIST: dict[str, Any] = {"batch_size": 256, "dataset_size": 60_000}


def test_batch_dataset_and_epochs_make_rate_and_rounds() -> None:
    setting = Setting(noise_multiplier=1.1, epochs=60, **MNIST)
    assert (
        setting.run() == PoissonSampled(Gaussian(1.1), 256 / 60_000) * 60 * 235
    )  # each epoch ends with a batch that is not full


@pytest.mark.parametrize(
    ("words", "mechanism"),
    [
        ({"mechanism": "gaussian", "noise_multiplier": 2.0}, Gaussian(2.0)),
        ({"mechanism": "laplace", "noise_multiplier": 2.0}, Laplace(2.0)),
        ({"mechanism": "discrete-gaussian", "noise_multiplier": 2.0}, DiscreteGaussian(2.0)),
        ({"mechanism": "discrete-laplace", "noise_multiplier": 2.0}, DiscreteLaplace(2.0)),
        ({"mechanism": "exponential", "step_epsilon": 0.5}, ExponentialMechanism(0.5)),
        ({"mechanism": "randomized-response", "step_epsilon": 0.5}, RandomizedResponse(0.5)),
        ({"mechanism": "pure-dp", "step_epsilon": 0.5}, PureDP(0.5)),
        ({"mechanism": "approximate-dp", "step_epsilon": 0.5, "step_delta": 1e-6}, ApproximateDP(0.5, 1e-6)),
        ({"mechanism": "zcdp", "rho": 0.1}, ZCDP(0.1)),
        ({"mechanism": "rdp-curve", "orders": (2.0, 4.0), "rdps": (0.1, 0.3)}, RdpCurve((2.0, 4.0), (0.1, 0.3))),
    ],
)
def test_every_word_makes_its_mechanism(words: dict[str, object], mechanism: object) -> None:
    assert Setting(**words).step() == mechanism  # type: ignore[arg-type]  # the words are of several types


def test_all_words_are_tried() -> None:
    assert set(MECHANISMS) == {
        *("gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "randomized-response"),
        *("pure-dp", "exponential", "approximate-dp", "zcdp", "rdp-curve"),
    }


@given(epochs=st.integers(1, 10_000), tenths=st.integers(1, 10))
def test_whole_epochs_at_a_decimal_rate_gain_no_round_from_binary(epochs: int, tenths: int) -> None:
    setting = Setting(noise_multiplier=1.0, sampling_rate=tenths / 10, epochs=epochs)
    assert setting.total_rounds() == epochs * -(-10 // tenths)


@given(batch=st.integers(1, 3000), dataset=st.integers(3000, 10**6), epochs=st.integers(1, 100))
def test_epochs_make_the_rounds_of_a_loop(batch: int, dataset: int, epochs: int) -> None:
    made = Setting(batch_size=batch, dataset_size=dataset, epochs=epochs).total_rounds()
    assert made == epochs * len(range(0, dataset, batch))
    assert Setting(sampling_rate=batch / dataset, epochs=epochs).total_rounds() == made


def test_three_epochs_of_ten_batches_are_thirty_rounds() -> None:
    assert Setting(batch_size=1024, dataset_size=10_000, epochs=3).total_rounds() == 30
    assert Setting(batch_size=1024, dataset_size=10_000, epochs=0.5).total_rounds() == 5
    assert Setting(batch_size=1024, dataset_size=10_000, epochs=0.51).total_rounds() == 6
    assert Setting(batch_size=1024, dataset_size=10_000, epochs=1e-9).total_rounds() == 1


@given(batch=st.integers(1, 3000), dataset=st.integers(3000, 10**6), rounds=st.integers(1, 10**9))
def test_the_epochs_of_rounds_make_these_rounds_again(batch: int, dataset: int, rounds: int) -> None:
    epochs = Setting(batch_size=batch, dataset_size=dataset).epochs_of(rounds)
    assert Setting(batch_size=batch, dataset_size=dataset, epochs=epochs).total_rounds() == rounds


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({}, "noise_multiplier is missing"),
        ({"noise_multiplier": 1.0, "rho": 1.0}, "rho has no place here: a gaussian is made of noise_multiplier"),
        ({"mechanism": "zcdp", "noise_multiplier": 1.0}, "noise_multiplier has no place here"),
        ({"noise_multiplier": 1.0, "batch_size": 10}, "dataset_size is missing"),
        ({"noise_multiplier": 1.0, "sampling_rate": 0.1, **MNIST}, "batch_size has no place here"),
        ({"noise_multiplier": 1.0, "rounds": 1, "dataset_size": 10}, "batch_size is missing"),
        ({"noise_multiplier": 1.0, "epochs": 1, "dataset_size": 10}, "batch_size is missing"),
        ({"noise_multiplier": 1.0, "rounds": 1, "batch_size": 10, "dataset_size": 9}, "at most the dataset_size 9"),
        ({"noise_multiplier": 1.0}, "rounds are missing"),
        ({"noise_multiplier": 1.0, "rounds": 1, "epochs": 1}, "epochs has no place here"),
        ({"noise_multiplier": 1.0, "epochs": 1}, "epochs need a sampling rate"),
        ({"noise_multiplier": 1.0, "epochs": 1, "sampling_rate": 0.0}, "epochs need a sampling rate"),
    ],
)
def test_missing_and_conflicting_words_get_a_sentence(words: dict[str, object], says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        Setting(**words).run()  # type: ignore[arg-type]  # the words are of several types


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"noise_multiplier": math.nan, "rounds": 1}, "noise_multiplier must be in"),
        ({"noise_multiplier": 1.0, "rounds": 1.5}, "rounds must be an integer"),
        ({"noise_multiplier": 1.0, "rounds": -1}, "rounds must be an integer"),
        ({"noise_multiplier": 1.0, "rounds": 1, "batch_size": 0, "dataset_size": 9}, "batch_size must be an integer"),
        ({"noise_multiplier": 1.0, "rounds": 1, "sampling_rate": 256}, "a probability, not a batch size"),
        ({"noise_multiplier": 1.0, "epochs": math.nan, **MNIST}, r"epochs must be in \(0, inf\)"),
        ({"noise_multiplier": 1.0, "epochs": 0.0, **MNIST}, r"epochs must be in \(0, inf\)"),
        ({"mechanism": "gausian", "rounds": 1}, "mechanism must be one of"),
        ({"mechanism": 3, "rounds": 1}, "mechanism must be one of"),
        ({"noise_multiplier": "1", "rounds": 1}, "noise_multiplier must be"),
    ],
)
def test_words_out_of_range_get_the_librarys_sentence(words: dict[str, object], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Setting(**words).run()  # type: ignore[arg-type]  # the words are of several types


@pytest.mark.parametrize("dataset", [3, 7, 15, 49, 60_000])
@pytest.mark.parametrize("epochs", [1, 2, 10])
def test_a_fraction_typed_as_a_rate_makes_the_rounds_of_its_batch(dataset: int, epochs: int) -> None:
    """1/15 as a double is a little more than a fifteenth, of which fourteen whole rounds would make an epoch."""
    by_rate = Setting(noise_multiplier=1.0, sampling_rate=1 / dataset, epochs=epochs)
    by_batch = Setting(noise_multiplier=1.0, batch_size=1, dataset_size=dataset, epochs=epochs)
    assert by_rate.total_rounds() == by_batch.total_rounds() == epochs * dataset


def test_a_rate_beside_the_size_of_the_data_needs_no_batch() -> None:
    assert Setting(sampling_rate=0.1, dataset_size=60_000).rate() == 0.1


@pytest.mark.parametrize(
    ("words", "rounds", "epochs"),
    [
        ({"sampling_rate": 0.01}, 9, 0.09),
        ({"sampling_rate": 0.01}, 23_238, 232.38),
        ({"sampling_rate": 0.1}, 3, 0.3),  # of which doubles make 0.30000000000000004
        ({"sampling_rate": 1 / 3}, 3, 1.0),
        (MNIST, 1880, 8.0),
        ({"sampling_rate": 0.0}, 3, None),
        ({}, 3, None),
    ],
)
def test_rounds_make_the_epochs_that_one_counts_by_hand(
    words: dict[str, float], rounds: int, epochs: float | None
) -> None:
    assert Setting(**words).epochs_of(rounds) == epochs  # type: ignore[arg-type]  # a mechanism is no number
