"""A grid is every row its file describes, in order, and nothing else is read from it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprounds.errors import ParameterError
from dprounds.sweep import grid_from_file, grid_from_toml
from dprounds.sweep.axis import MOST_ROWS, axis_from

HEAD = 'question = "rounds"\n[grid]\nepsilon = 1\ndelta = 1e-5\n'


def values(word: str, given: object) -> list[object]:
    axis = axis_from(word, given)
    return [axis[index] for index in range(len(axis))]


def test_the_first_word_varies_slowest_and_the_method_fastest() -> None:
    grid = grid_from_toml(
        'question = "rounds"\nmethods = ["exact", "moments"]\n[grid]\n'
        "noise_multiplier = [1, 2]\nepsilon = [3, 4]\ndelta = 0.1"
    )
    found = [(*row.words.values(), row.method) for row in grid.rows()]
    assert found == [(s, e, 0.1, m) for s in (1, 2) for e in (3, 4) for m in ("exact", "moments")]
    assert [row for first in range(8) for row in grid.rows(first, first + 1)] == list(grid.rows())


def test_ranges_hit_the_decimals_that_a_person_means() -> None:
    assert values("sampling_rate", {"from": 0.001, "to": 0.1, "points": 5, "scale": "log"})[::2] == [0.001, 0.01, 0.1]
    assert values("epsilon", {"from": 0.1, "to": 0.7, "step": 0.1}) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert values("epsilon", {"from": 8, "to": 1, "points": 3}) == [8.0, 4.5, 1.0]
    assert values("rounds", {"from": 1000, "to": 3500, "step": 1000}) == [1000, 2000, 3000]
    assert values("rounds", {"from": 1, "to": 1000, "points": 4, "scale": "log"}) == [1, 10, 100, 1000]
    assert values("rounds", [1e6, 2, 2.5]) == [1_000_000, 2, 2.5]
    assert [type(value) for value in values("rounds", [1e6, 2, 2.5])] == [int, int, float]


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300), st.integers(2, 40), st.sampled_from(["log", "linear"]))
def test_a_range_starts_and_ends_where_it_says_and_never_turns(
    low: float, high: float, points: int, scale: str
) -> None:
    low, high = sorted((low, high))
    found = values("epsilon", {"from": low, "to": high, "points": points, "scale": scale})
    assert (found[0], found[-1], len(found)) == (low, high, points)
    assert found == sorted(found)  # type: ignore[type-var]  # numbers, though typed as cells


def test_a_curve_is_one_value_and_a_list_of_curves_several() -> None:
    assert values("orders", [2, 4.0]) == [(2.0, 4.0)]
    assert values("orders", [[2, 4], [8]]) == [(2.0, 4.0), (8.0,)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "question is missing"),
        ("\0", "It is not TOML"),
        ("x = " + "[" * 100_000, "It is not TOML"),
        ("x = " + "1" * 5000, "It is not TOML"),
        ('question = "rounds"', r"under a \[grid\] line"),
        ('question = "rounds"\ngrid = 3', r"under a \[grid\] line"),
        ('question = "convert"\n[grid]\nepsilon = 1', "question must be one of"),
        ("question = 3\n[grid]\nepsilon = 1", "question must be one of"),
        ('seed = 3\nquestion = "rounds"', "seed is not known"),
        ('question = "rounds"\n[grid]\nnoise = 1', "noise is not known. The words of a grid are"),
        (f"methods = []\n{HEAD}", "methods must be a list"),
        (f'methods = "exact"\n{HEAD}', "methods must be a list"),
        (f'methods = ["magic"]\n{HEAD}', "methods must be one of"),
        (f'methods = ["exact", "exact"]\n{HEAD}', "methods must be different"),
        ('question = "rounds"\n[grid]\nnoise_multiplier = 1\ndelta = 0.1', "epsilon is missing"),
        (f"{HEAD}noise_multiplier = 1\nrounds = 3", "rounds has no place here"),
        (HEAD, "noise_multiplier is missing: a gaussian"),
        (f'{HEAD}noise_multiplier = 1\nmechanism = "zcdp"', "noise_multiplier has no place here"),
        (f'{HEAD}noise_multiplier = 1\nmechanism = "gausian"', "mechanism must be one of"),
        (f"{HEAD}noise_multiplier = 1\nbatch_size = 1", "dataset_size is missing"),
        (
            f"{HEAD}noise_multiplier = 1\nbatch_size = 1\ndataset_size = 2\nsampling_rate = 0.5",
            "batch_size has no place",
        ),
        ('question = "epsilon"\n[grid]\nnoise_multiplier = 1\ndelta = 0.1', "rounds are missing"),
        (
            'question = "noise"\n[grid]\nepsilon = 1\nmechanism = "zcdp"\nrounds = 1\ndelta = 0.1',
            "mechanism must be one",
        ),
        (f"{HEAD}noise_multiplier = []", "noise_multiplier must have a value"),
        (f"{HEAD}noise_multiplier = true", "noise_multiplier must be a number"),
        (f"{HEAD}noise_multiplier = '1'", "noise_multiplier must be a number"),
        (f"{HEAD}noise_multiplier = [[1]]", "noise_multiplier must be a number"),
        (f"{HEAD}noise_multiplier = 1979-05-27", "noise_multiplier must be a number"),
        (f"{HEAD}noise_multiplier = 1{'0' * 30}", "noise_multiplier must be at most"),
        (f"{HEAD}orders = 2", "orders must be a list"),
        (f"{HEAD}orders = []", "orders must be a list"),
        (f"{HEAD}orders = {{ from = 1, to = 2, points = 2 }}", "not a range"),
        (f"{HEAD}noise_multiplier = {{}}", r"noise_multiplier\.from is missing"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2 }}", "either points or a step"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2, points = 2, step = 1 }}", "either points or a step"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2, pints = 2 }}", r"noise_multiplier\.pints is not known"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = nan, points = 2 }}", r"noise_multiplier\.to must be a finite"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 1e400, step = 1 }}", "1e400 is too large for a double"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 'b', points = 2 }}", r"noise_multiplier\.to must be a number"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2, points = 1 }}", r"points must be an integer in \[2"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2, points = 2.5 }}", r"points must be an integer in \[2"),
        (
            f"{HEAD}noise_multiplier = {{ from = 1, to = 2, points = 10_000_000_000 }}",
            r"points must be an integer in \[2",
        ),
        (f"{HEAD}noise_multiplier = {{ from = 0, to = 2, points = 2, scale = 'log' }}", "ends above 0 on a log scale"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2, points = 2, scale = 'cubic' }}", "scale must be one of"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2, step = 1, scale = 'log' }}", "scale goes with points"),
        (f"{HEAD}noise_multiplier = {{ from = 1, to = 2, step = 0 }}", "must go up"),
        (f"{HEAD}noise_multiplier = {{ from = 2, to = 1, step = 1 }}", "must go up"),
        (f"{HEAD}noise_multiplier = {{ from = 0, to = 1e300, step = 1e-300 }}", "more than 10,000,000 values"),
        (f"{HEAD}dataset_size = {{ from = 1, to = 2, step = 0.5 }}", "it is a count"),
    ],
)
def test_a_bad_grid_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence) as caught:
        grid_from_toml(text)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)
    # a sentence about a file's words, which the command line must not turn into one about its flags
    assert type(caught.value) is ParameterError


def test_a_grid_with_some_mechanisms_that_fit_is_a_grid() -> None:
    assert len(grid_from_toml(f'{HEAD}mechanism = ["gaussian", "zcdp"]\nrho = 1.0')) == 10


def test_a_grid_too_large_to_mean_is_refused_before_anything_is_computed() -> None:
    wide = "{ from = 1, to = 2, points = 2001 }"
    with pytest.raises(ParameterError, match="20,020,005 rows, more than 10,000,000"):
        grid_from_toml(f"{HEAD.replace('1e-5', '{ from = 0.1, to = 0.2, points = 2001 }')}noise_multiplier = {wide}")


def test_a_million_rows_take_no_memory() -> None:
    grid = grid_from_toml(f"{HEAD}noise_multiplier = {{ from = 1, to = 2, points = 200_000, scale = 'linear' }}")
    assert len(grid) == 1_000_000 < MOST_ROWS
    tracemalloc.start()
    rows = sum(1 for _ in grid.rows(0, 20_000)) + sum(1 for _ in grid.rows(980_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 40_000
    assert peak < 100_000


def test_the_fingerprint_is_of_what_is_asked_not_of_how_it_is_written() -> None:
    one, same, other = (
        grid_from_toml(f"{text}noise_multiplier = {value}")
        for text, value in ((HEAD, "[1, 2]"), (f"# a word\n{HEAD}", "[1,2]"), (HEAD, "[1, 3]"))
    )
    assert one.fingerprint == same.fingerprint != other.fingerprint


@pytest.mark.parametrize("kind", ["missing", "directory", "binary", "empty", "forbidden"])
def test_a_file_that_is_no_grid_is_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    if kind == "directory":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\xff\xfe\0" if kind == "binary" else b"")
        path.chmod(0o000 if kind == "forbidden" else 0o600)
    with pytest.raises(ParameterError, match=r"grid\.toml"):
        grid_from_file(path)
