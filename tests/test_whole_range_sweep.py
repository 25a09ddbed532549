"""The sweep over the whole range draws what it says, and its adversary is below the truth and catches what is not."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import dprounds
from benchmarks.adversary import Part, beyond_a_threshold, epsilon_below, exact_delta, from_moments
from benchmarks.atoms import _Run, one_round
from benchmarks.truth import inverted
from benchmarks.whole_range import NAMES, Question, answered, code, judged, question, report

# Runs whose profile has a closed form or a short sum, with a delta.
KNOWN = [
    ([Part("gaussian", 20.0, 1.0, 500)], 1e-5),
    ([Part("gaussian", 3000.0, 1.0, 10**9)], 1e-20),
    ([Part("gaussian", 1.0, 1.0, 30), Part("gaussian", 7.0, 1.0, 900)], 1e-8),
    ([Part("gaussian", 0.8, 0.01, 1)], 1e-5),
    ([Part("gaussian", 400.0, 1e-4, 1)], 1e-12),
    ([Part("laplace", 2.0, 1.0, 1)], 1e-3),
    ([Part("laplace", 0.5, 0.3, 1)], 1e-4),
    ([Part("response", 1.0, 1.0, 1)], 0.1),
    ([Part("response", 0.05, 1.0, 1500)], 1e-9),
    ([Part("discrete-gaussian", 1.5, 1.0, 1)], 1e-6),
    ([Part("discrete-gaussian", 2.5, 0.02, 1)], 1e-7),
    ([Part("discrete-gaussian", 1.0023697254429724, 1.0, 1)], 1.2925163746894557e-29),
]


def truth(parts: list[Part], delta: float) -> tuple[float, float]:
    return inverted(lambda epsilon: exact_delta(parts, epsilon), delta)


@pytest.mark.parametrize(("parts", "delta"), KNOWN)
def test_bounds_are_on_their_side_of_the_truth(parts: list[Part], delta: float) -> None:
    least, largest = truth(parts, delta)
    for part in parts:  # a part of a run costs no more than the run
        assert beyond_a_threshold(part, delta) <= largest
    for hint in (0.5 * largest, largest, 3.0 * largest):
        assert epsilon_below(parts, delta, hint) <= largest
    assert from_moments(parts, delta) >= least


@pytest.mark.parametrize(("parts", "delta"), KNOWN)
def test_merged_outputs_show_all_but_a_hundredth(parts: list[Part], delta: float) -> None:
    least, _ = truth(parts, delta)
    for hint in (least, 1.1 * least):
        assert epsilon_below(parts, delta, hint) >= 0.99 * least


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("part", "moment"),
    [  # E_P[(Q/P)²], which merging and every rounding raise
        (Part("gaussian", 2.0, 1.0, 1), lambda size: mp.exp(3 / size**2)),
        (Part("laplace", 0.7, 1.0, 1), lambda size: (3 * mp.exp(2 / size) + 2 * mp.exp(-3 / size)) / 5),
        (Part("response", 1.3, 1.0, 1), lambda size: (mp.exp(2 * size) + mp.exp(-3 * size)) / (1 + mp.exp(-size))),
    ],
)
def test_atoms_of_one_round_err_to_the_safe_side(
    part: Part, moment: Callable[[mp.mpf], mp.mpf], direction: str
) -> None:
    mass, loss = one_round(part, direction)
    with mp.workdps(30):
        masses, losses = ([mp.mpf(str(value)) for value in row] for row in (mass, loss))
        total = mp.fsum(masses)
        assert 1 - mp.mpf("1e-14") < total < 1
        # Q is all of it too, but for what is rounded: lowered losses raise it, dropped masses lower it
        assert abs(mp.fsum(m * mp.exp(-x) for m, x in zip(masses, losses, strict=True)) - 1) < mp.mpf("1e-14")
        found = mp.fsum(m * mp.exp(2 * x) for m, x in zip(masses, losses, strict=True))
        exact = moment(mp.mpf(part.size))
        assert mp.mpf("0.999") * exact < found < exact


def test_merging_lowers_the_cost_and_keeps_the_mass() -> None:
    run = _Run([Part("gaussian", 1.0, 0.1, 2)], "remove", 1.0, 50)
    atoms = run.steps[0][0]
    pairs = run._product(atoms, atoms)
    merged = run._merged(pairs)
    assert merged.mass.size <= 50
    assert 1 - 1e-10 < merged.mass.sum() < 1
    for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0):
        fine, coarse = (float((a.mass * np.maximum(-np.expm1(epsilon - a.loss), 0)).sum()) for a in (pairs, merged))
        assert coarse <= fine
        assert coarse >= 0.9 * fine


@pytest.mark.parametrize("at", [3, 4, 5, 6, 7, 9, 10])
def test_a_threshold_shows_all_but_a_hundredth_of_one_round(at: int) -> None:
    (part,), delta = KNOWN[at]
    assert beyond_a_threshold(part, delta) >= 0.99 * truth([part], delta)[0]


def test_sampled_rounds_are_shown_in_the_direction_that_costs_more() -> None:
    # Plain Gaussians are the same in both directions; a sample of everything must be as they are.
    plain = epsilon_below([Part("gaussian", 5.0, 1.0, 40)], 1e-6, 7.0)
    almost = epsilon_below([Part("gaussian", 5.0, 1.0 - 1e-12, 40)], 1e-6, 7.0)
    assert plain == pytest.approx(almost, rel=1e-3)  # groups may differ
    # one round of an unlikely record: the output says little if the record is added
    (least, _), part = truth([Part("gaussian", 1.0, 1e-3, 1)], 1e-8), Part("gaussian", 1.0, 1e-3, 1)
    assert 0.98 * least <= beyond_a_threshold(part, 1e-8) <= least


@pytest.mark.parametrize(
    ("parts", "delta"), [([Part("gaussian", 1.1, 256 / 60_000, 14_062)], 1e-5), *KNOWN[:3], KNOWN[6], KNOWN[8]]
)
def test_a_bracket_that_misses_the_truth_is_contradicted(parts: list[Part], delta: float) -> None:
    run = dprounds.PoissonSampled(dprounds.Gaussian(1.1), 256 / 60_000) * 14_062
    found = run.guarantee(delta=delta)
    lower, upper = (found.lower, found.upper) if parts[0].rate < 0.01 else truth(parts, delta)
    upper *= 1.0 + 1e-14  # of the root's own rounding
    assert judged(tuple(parts), delta, lower * (1 - 1e-14), upper, merge=True)["contradictions"] == []
    assert judged(tuple(parts), delta, 0.9 * lower, 0.99 * upper, merge=True)["contradictions"]
    assert judged(tuple(parts), delta, 1.5 * lower, 2.0 * upper, merge=True)["contradictions"]


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 0.5), (-1.0, 2.0), (0.0, math.nan), (math.nan, 1.0)])
def test_what_is_no_bracket_is_contradicted(lower: float, upper: float) -> None:
    found = judged((Part("gaussian", 1.0, 1.0, 1),), 1e-5, lower, upper, merge=False)
    assert "no bracket" in found["contradictions"][0]


def test_questions_are_in_the_range_and_drawn_again_by_their_number() -> None:
    drawn = [question(3, number) for number in range(2000)]
    assert drawn == [question(3, number) for number in range(2000)]
    parts = [part for each in drawn for part in each.parts]
    assert all(0.3 <= (1 / part.size if part.noise == "response" else part.size) <= 1e4 for part in parts)
    assert all(1e-9 <= part.rate <= 1 and 1 <= part.rounds <= 10**12 for part in parts)
    assert all(1e-30 <= each.delta <= 0.9 for each in drawn)
    assert {part.noise for part in parts} == set(NAMES)
    for values in (
        [part.rounds for part in parts],
        [1 / part.rate for part in parts],
        [1 / each.delta for each in drawn],
    ):
        assert min(values) < 2
        assert max(values) > 1e8
    assert 0.1 < sum(each.region == "DP-SGD" for each in drawn) / len(drawn) < 0.5
    assert {len(each.parts) for each in drawn} == {1, 2, 3, 4}


def test_the_code_of_a_question_asks_it() -> None:
    parts = (Part("gaussian", 1.5, 0.01, 100), Part("response", 0.1, 1.0, 3))
    found = eval(
        code(Question(0, "elsewhere", "mixture", parts, 1e-6)),
        vars(dprounds) | {name: getattr(dprounds, name) for name in dprounds.__all__},
    )
    run = dprounds.PoissonSampled(dprounds.Gaussian(1.5), 0.01) * 100 + dprounds.RandomizedResponse(0.1) * 3
    assert found == run.guarantee(delta=1e-6)


def test_a_report_tells_contradictions_with_their_code(capsys: pytest.CaptureFixture[str]) -> None:
    record = answered(5, seed=0, merge_every=0)
    wrong = {**record, "contradictions": ["ε ≥ 3 by a threshold"]}
    report([record, wrong])
    printed = capsys.readouterr().out
    assert "1 contradictions" in printed
    assert record["code"] in printed.split("1 contradictions")[1]


def test_a_sweep_goes_on_where_its_file_ends(tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    for runs in ("3", "5"):
        command = [sys.executable, "-m", "benchmarks.whole_range", "--runs", runs, "--write", str(file)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
        assert f"{runs} runs" in printed.stdout
    assert sorted(json.loads(line)["number"] for line in file.read_text().splitlines()) == [0, 1, 2, 3, 4]
