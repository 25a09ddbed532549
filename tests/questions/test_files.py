"""A file makes the run that it describes, or gets one sentence that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprounds import Accountant, Gaussian, Laplace, ParameterError, PoissonSampled
from dprounds.questions import run_from_file

PARTS = """
[[part]]
noise_multiplier = 1.1
batch_size = 256
dataset_size = 60_000
epochs = 60

[[part]]
mechanism = "laplace"
noise_multiplier = 10
rounds = 1
"""


def test_toml_and_json_describe_the_same_run(tmp_path: Path) -> None:
    run = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_100 + Laplace(10.0)
    (tmp_path / "run.toml").write_text(PARTS)
    assert run_from_file(tmp_path / "run.toml") == run
    accountant = Accountant()
    accountant.record(run)
    (tmp_path / "run.json").write_text(accountant.to_json())
    assert run_from_file(tmp_path / "run.json") == run


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.toml", b"", "must hold its parts"),
        ("empty.json", b"", "not JSON"),
        ("broken.toml", b"[[part", "not TOML"),
        ("binary.toml", bytes(range(256)), "not a text"),
        ("table.toml", b"part = 3", "must hold its parts"),
        ("list.toml", b"part = [3]", "part 1: It must be a table"),
        ("other.toml", PARTS.encode() + b"[budget]\nepsilon = 3", "it also holds budget"),
        ("unknown.toml", b"[[part]]\nsigma = 1", "sigma is not known"),
        ("nan.toml", b"[[part]]\nnoise_multiplier = nan\nrounds = 1", "part 1: noise_multiplier must be in"),
        ("text.toml", b"[[part]]\nnoise_multiplier = '1'\nrounds = 1", "part 1: noise_multiplier must be"),
        ("bool.toml", b"[[part]]\nnoise_multiplier = 1\nrounds = true", "part 1: rounds must be an integer"),
        ("nested.toml", b"[[part]]\nnoise_multiplier = [[1]]\nrounds = 1", "part 1: noise_multiplier must be"),
        ("date.toml", b"[[part]]\nnoise_multiplier = 1979-05-27\nrounds = 1", "part 1: noise_multiplier must be"),
        ("deep.toml", b"a = " + b"[" * 100_000, "not TOML"),
        ("digits.toml", b"[[part]]\nrounds = " + b"9" * 5000, "not TOML"),
        ("small.toml", b"[[part]]\nnoise_multiplier = 1e-400\nrounds = 1", "1e-400 is too small for a double"),
        ("huge.toml", b"[[part]]\nnoise_multiplier = 1e400\nrounds = 1", "1e400 is too large for a double"),
        ("inf.toml", b"[[part]]\nnoise_multiplier = inf\nrounds = 1", "part 1: noise_multiplier must be in"),
        ("rounds.toml", b"[[part]]\nnoise_multiplier = 1", "part 1: rounds are missing"),
        (
            "batch.toml",
            b"[[part]]\nnoise_multiplier = 1\nrounds = 1\ndataset_size = 9",
            "part 1: batch_size is missing",
        ),
        ("large.toml", b"#" * (5 * 1024 * 1024), "larger than 4 MiB"),
    ],
)
def test_a_bad_file_gets_one_sentence_that_names_it(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ParameterError, match=says) as caught:
        run_from_file(path)
    assert type(caught.value) is ParameterError  # not of a question, whose words may be flags
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_or_nothing_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cannot be read: Is a directory"):
        run_from_file(tmp_path)
    with pytest.raises(ParameterError, match="cannot be read: No such file"):
        run_from_file(tmp_path / "nothing.toml")
