"""Errors carry the argument, the interval, the value and the advice, and every face words them from these."""

from __future__ import annotations

import math
import pickle

import pytest

from dprounds import Gaussian, ParameterError, PoissonSampled, PrivacyError, _validate
from dprounds.cli.options import flag


def test_an_argument_out_of_range_is_named_with_its_interval_value_and_advice() -> None:
    with pytest.raises(ParameterError) as caught:
        PoissonSampled(Gaussian(1.0), 256)
    error = caught.value
    assert (error.argument, error.fields["interval"], error.fields["value"]) == ("sampling_rate", "[0, 1]", "256")
    assert error.advice == "It is a probability, not a batch size: pass {batch_size} / {dataset_size}."
    assert str(error) == (
        "sampling_rate must be in [0, 1], got 256. It is a probability, not a batch size: "
        "pass batch_size / dataset_size."
    )
    assert error.worded(flag) == (
        "--sampling-rate must be in [0, 1], got 256. It is a probability, not a batch size: "
        "pass --batch-size / --dataset-size."
    )


@pytest.mark.parametrize(
    "check",
    [
        lambda: _validate.real("delta", math.nan, _validate.DELTA),
        lambda: _validate.real("delta", "1", _validate.DELTA),  # type: ignore[arg-type]  # which is refused
        lambda: _validate.real("delta", [0.1, 0.2], _validate.DELTA),  # type: ignore[arg-type]  # which is refused
        lambda: _validate.count("delta", 1.5),
        lambda: _validate.choice("delta", "x", ("a", "b")),
    ],
)
def test_every_check_names_its_argument_in_fields(check: object) -> None:
    with pytest.raises(ParameterError) as caught:
        check()  # type: ignore[operator]  # a function of the list above
    assert caught.value.argument == "delta"
    assert {"interval", "value"} <= set(caught.value.fields)
    assert caught.value.worded(lambda name: f"<{name}>").startswith("<delta> must be ")


def test_what_a_person_typed_is_not_taken_for_a_template() -> None:
    text = "{delta} {0} {} %s"
    assert str(PrivacyError(text)) == PrivacyError(text).worded(flag) == text
    with pytest.raises(ParameterError) as caught:
        _validate.choice("method", text, ("exact",))
    assert caught.value.worded(flag) == f"--method must be one of 'exact', got {text!r}."


def test_an_error_is_the_same_after_it_crossed_a_process() -> None:
    with pytest.raises(ParameterError) as caught:
        Gaussian(-1.0)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.worded(flag)) == (str(caught.value), caught.value.worded(flag))
    assert copy.argument == "noise_multiplier"
