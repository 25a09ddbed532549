"""The running total."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from dprounds import (
    ZCDP,
    Accountant,
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
    max_rounds,
)
from dprounds.mechanisms import Mechanism

STEP = PoissonSampled(Gaussian(1.1), 0.004)
EVERY: list[Mechanism] = [
    Gaussian(1.1),
    Laplace(0.1 + 0.2),
    RandomizedResponse(1e-3),
    PureDP(2.0),
    ApproximateDP(0.1, 1e-7),
    DiscreteGaussian(3.0),
    ZCDP(0.01),
    RdpCurve([2.0, 4.0, math.inf], [0.1, 0.2, 3.0]),
    PoissonSampled(Laplace(2.0), 1 / 3),
    STEP,
]


def test_equal_steps_merge_and_the_total_is_the_run() -> None:
    accountant = Accountant()
    for _ in range(300):
        accountant.record(PoissonSampled(Gaussian(1.1), 0.004))
    accountant.record(STEP, rounds=700)
    accountant.record(Laplace(5.0) * 3 + Gaussian(9.0))
    assert accountant.run == STEP * 1000 + Laplace(5.0) * 3 + Gaussian(9.0)
    assert len(accountant.run.parts) == 3
    assert accountant.epsilon(delta=1e-5) == accountant.run.epsilon(delta=1e-5)
    assert accountant.delta(epsilon=1.0) == accountant.run.delta(epsilon=1.0)
    assert accountant.guarantee(delta=1e-5) == accountant.run.guarantee(delta=1e-5)


def test_remaining_rounds_and_would_exceed_agree() -> None:
    accountant = Accountant()
    whole = max_rounds(STEP, epsilon=1.0, delta=1e-5)
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == whole
    accountant.record(STEP, rounds=whole - 1)
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == 1
    assert not accountant.would_exceed(STEP, epsilon=1.0, delta=1e-5)
    accountant.record(STEP)
    assert accountant.would_exceed(STEP, 1.0, 1e-5)
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == 0
    accountant.record(Gaussian(0.1))
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == 0


def test_json_restores_every_mechanism_exactly() -> None:
    accountant = Accountant()
    for number, mechanism in enumerate(EVERY, start=1):
        accountant.record(mechanism, rounds=number**9)
    restored = Accountant.from_json(accountant.to_json())
    assert restored == accountant
    assert restored.to_json() == accountant.to_json()
    assert json.loads(accountant.to_json())["version"] == 1


def test_an_empty_accountant_is_restored_too() -> None:
    assert Accountant.from_json(Accountant().to_json()) == Accountant()


def damaged() -> dict[str, Any]:
    good = Accountant()
    good.record(STEP, rounds=5)
    good.record(RdpCurve([2.0, math.inf], [0.1, 0.2]))
    data: dict[str, Any] = json.loads(good.to_json())
    part = data["parts"][0]
    gaussian = {"name": "Gaussian", "noise_multiplier": 1.0}

    def with_part(**changes: object) -> str:
        return json.dumps({**data, "parts": [{**part, **changes}]})

    deep: dict[str, Any] = gaussian
    for _ in range(500):
        deep = {"name": "PoissonSampled", "mechanism": deep, "sampling_rate": 0.5}
    return {
        "empty": "",
        "cut short": good.to_json()[:-10],
        "not an object": "[1, 2]",
        "null": "null",
        "binary": b"\xff\xfe\x00",
        "nested beyond reason": "[" * 100_000,
        "other format": json.dumps({**data, "format": "something"}),
        "newer version": json.dumps({**data, "version": 2}),
        "version true": json.dumps({**data, "version": True}),
        "extra key": json.dumps({**data, "more": 1}),
        "no parts": json.dumps({"format": data["format"], "version": 1}),
        "parts not a list": json.dumps({**data, "parts": {}}),
        "unknown mechanism": with_part(mechanism={"name": "Uniform", "width": 1.0}),
        "abstract mechanism": with_part(mechanism={"name": "Mechanism"}),
        "not a mechanism": with_part(mechanism={"name": "Run", "parts": []}),
        "mechanism not an object": with_part(mechanism=3),
        "missing parameter": with_part(mechanism={"name": "Gaussian"}),
        "bad parameter": with_part(mechanism={"name": "Gaussian", "noise_multiplier": -1.0}),
        "text parameter": with_part(mechanism={"name": "Gaussian", "noise_multiplier": "1.0"}),
        "NaN parameter": with_part(mechanism={"name": "Gaussian", "noise_multiplier": math.nan}),
        "negative rounds": with_part(rounds=-1),
        "fraction of a round": with_part(rounds=1.5),
        "rounds as text": with_part(rounds="5"),
        "rounds true": with_part(rounds=True),
        "deep": with_part(mechanism=deep),
        "a number": 5,
    }


DAMAGED = damaged()


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damaged_content_is_refused_in_one_line(text: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        Accountant.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rounds", [-1, 1.5, math.nan, "1", None, True])
def test_rounds_must_be_counted(rounds: Any) -> None:
    with pytest.raises(ParameterError, match=r"^rounds must be an integer in \[0, inf\), got"):
        Accountant().record(STEP, rounds=rounds)


def test_only_releases_are_recorded() -> None:
    with pytest.raises(ParameterError, match=r"^step must be a mechanism or a run"):
        Accountant().record("gaussian")  # type: ignore[arg-type]  # the point of the test
