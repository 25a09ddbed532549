"""``dprounds ledger``: the same ledger as in Python, with exit codes that a script can go by."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from dprounds.cli import main

Typed = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """A line that was typed after ``dprounds ledger``, on a ledger with one budget."""
    monkeypatch.setenv("DPROUNDS_LEDGER", f"sqlite:///{tmp_path}/budget.db")

    def run(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["ledger", *shlex.split(line)])
        out, err = capsys.readouterr()
        return code, " ".join(out.split()), " ".join(err.split())

    assert run("open patients --epsilon 6 --delta 1e-5 --note 'a study'")[0] == 0
    return run


def test_a_job_is_reserved_committed_and_seen(ledger: Typed) -> None:
    assert ledger("reserve patients --key train --noise-multiplier 20 --rounds 600 --by research") == (
        0,
        "train is reserved: 12.45 % of the budget of patients is left.",
        "",
    )
    assert ledger("commit patients --key train") == (0, "train is committed.", "")
    code, out, _ = ledger("status patients")
    assert code == 0
    assert "a study" in out
    assert "You may publish: ε = 6 at δ = 1e-05" in out
    assert "1 committed" in out
    assert "patients" in ledger("status")[1]
    code, out, _ = ledger("history patients")
    assert [word for word in ("open", "reserve", "commit") if word in out] == ["open", "reserve", "commit"]
    assert json.loads(ledger("history patients --json")[1])[0]["at"][:19].replace("T", " ") in out
    assert ledger("verify") == (0, "Everything fits: 1 data set.", "")


def test_a_job_that_does_not_fit_ends_with_one_sentence_and_code_1(ledger: Typed) -> None:
    code, out, err = ledger("reserve patients --key train --noise-multiplier 20 --rounds 1000")
    assert (code, out) == (1, "")
    assert err.startswith("Error: The budget of 'patients' (epsilon 6, delta 1e-05) does not allow this job")
    assert err.endswith("685 of its 1,000 rounds would fit.")
    assert json.loads(ledger("status patients --json")[1])["entries"] == 1


def test_a_reservation_is_voided_with_a_reason(ledger: Typed) -> None:
    ledger("reserve patients --key train --noise-multiplier 20 --rounds 1")
    assert ledger("void patients --key train --reason 'never started'")[:2] == (
        0,
        "train is voided; it stays in the history.",
    )
    assert ledger("commit patients --key train")[0] == 1
    # nothing is charged for it any more: a script must not go on
    assert ledger("reserve patients --key train --noise-multiplier 20 --rounds 1")[0] == 1
    assert ledger("void patients --key train")[0] == 2


def test_a_script_that_runs_twice_works_once(ledger: Typed) -> None:
    reserve = "reserve patients --key train --noise-multiplier 20 --rounds 10"
    assert ledger(reserve)[0] == 0
    assert ledger(reserve)[0] == 0  # a retry, before the work has begun
    assert ledger("begin patients --key train --by research") == (0, "train has begun.", "")
    for line in (reserve, "begin patients --key train"):
        code, out, err = ledger(line)
        assert (code, out) == (1, "")
        assert "begun" in err
    assert ledger("void patients --key train --reason 'never started'")[0] == 1
    assert ledger("commit patients --key train")[0] == 0
    code, _, err = ledger(reserve)
    assert code == 1
    assert "train is committed already" in err
    assert "has none with key" in ledger("begin patients --key nothing")[2]


def test_rounds_that_were_not_made_are_given_back(ledger: Typed) -> None:
    ledger("open often --epsilon 6 --delta 1e-5 --filter renyi")
    ledger("reserve often --key train --noise-multiplier 20 --rounds 600")
    assert ledger("commit often --key train --rounds-made 601")[0] == 1
    told = json.loads(ledger("commit often --key train --rounds-made 0 --json")[1])
    assert (told["state"], told["rounds_made"]) == ("committed", 0)
    assert json.loads(ledger("status often --json")[1])["share_left"] == 1.0
    ledger("reserve patients --key train --noise-multiplier 20 --rounds 600")
    assert "charges a job whole" in ledger("commit patients --key train --rounds-made 3")[2]


def test_a_cost_is_told_and_not_charged(ledger: Typed) -> None:
    told = "It costs 14.60 % of the budget of patients, of which 100.00 % is left."
    assert ledger("cost patients --noise-multiplier 20 --rounds 100") == (0, told, "")
    code, out, err = ledger("cost patients --noise-multiplier 20 --rounds 1000")
    assert (code, out) == (1, "")
    assert err.endswith("685 of its 1,000 rounds would fit.")
    code, out, _ = ledger("cost patients --noise-multiplier 20 --rounds 1000 --json")
    found = json.loads(out)
    assert code == 1
    assert (found["fits"], 1.45 < found["share"] < 1.46, found["share_left"]) == (False, True, 1.0)
    assert json.loads(ledger("status patients --json")[1])["entries"] == 1


def test_json_holds_every_digit(ledger: Typed) -> None:
    told = json.loads(ledger("reserve patients --key train --noise-multiplier 20 --rounds 100 --json")[1])
    assert told["state"] == "reserved"
    assert told["run"] == "Gaussian(20.0) * 100"
    status = json.loads(ledger("status --json")[1])
    assert status[0]["share_left"] == told["share_left"]
    entries = json.loads(ledger("history patients --json")[1])
    assert int(entries[1]["mu_squared_units"]) >= 2**60 // 4
    assert json.loads(ledger("verify --json")[1])["heads"] == {"patients": entries[1]["hash"]}
    assert json.loads(ledger("history patients --after 1 --json")[1]) == entries[1:]


def test_a_file_describes_the_job(ledger: Typed, tmp_path: Path) -> None:
    run = tmp_path / "run.toml"
    run.write_text("[[part]]\nnoise_multiplier = 20.0\nrounds = 3\n")
    code, _, err = ledger(f"reserve patients --key train --run {run}")
    assert (code, err) == (0, "")
    assert json.loads(ledger("history patients --json")[1])[1]["run"] == "Gaussian(20.0) * 3"
    assert ledger(f"reserve patients --key other --run {run} --rounds 4")[0] == 2


def test_history_is_written_as_csv_json_or_parquet(ledger: Typed, tmp_path: Path) -> None:
    from pyarrow import parquet

    ledger("reserve patients --key 'a, \"b\"' --noise-multiplier 20 --rounds 1")
    assert ledger(f"history patients --out {tmp_path}/h.csv")[0] == 0
    with (tmp_path / "h.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["key"] for row in rows] == ["", 'a, "b"']
    assert ledger(f"history patients --out {tmp_path}/h.json")[0] == 0
    assert [row["key"] for row in json.loads((tmp_path / "h.json").read_text())] == ["", 'a, "b"']
    assert ledger(f"history patients --out {tmp_path}/h.parquet")[0] == 0
    assert parquet.read_table(tmp_path / "h.parquet").to_pylist()[1]["key"] == 'a, "b"'
    assert "must end in .csv, .json or .parquet" in ledger(f"history patients --out {tmp_path}/h.txt")[2]
    assert "cannot be written" in ledger(f"history patients --out {tmp_path}/no/h.csv")[2]


def test_blocks_are_named_one_by_one(ledger: Typed) -> None:
    ledger("open days --epsilon 6 --delta 1e-5 --blocks --filter renyi --order 5")
    assert ledger("reserve days --key a --noise-multiplier 20 --rounds 1 --block 2026-01 --block 2026-02")[0] == 0
    assert "blocks must list" in ledger("reserve days --key b --noise-multiplier 20 --rounds 1")[2].replace("--", "")
    status = json.loads(ledger("status days --json")[1])
    assert (status["blocks"], status["order"]) == (2, 5.0)
    assert json.loads(ledger("status days --block 2026-03 --json")[1])["share_left"] == 1.0
    out = ledger("status days")[1]
    assert " is left of the fullest of 2 blocks; " in out
    assert "1 job reserved" in out
    # the reading of one block is none of the data set
    out = ledger("status days --block 2026-03")[1]
    assert "100.00 % is left of block 2026-03; " in out
    assert "about the records of block 2026-03 alone what is spent so far by the odometer: ε = 0.75" in out


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("open patients --epsilon 1 --delta 1e-5", 1, "there is a budget named 'patients' already"),
        ("open others --delta 1e-5", 1, "--epsilon must be given"),
        ("open others --epsilon nan --delta 1e-5", 1, "--epsilon must be in"),
        ("open others --epsilon 1", 1, "--delta must be given"),
        ("open others --epsilon 1 --delta 1e-5 --filter natural", 1, "--filter must be one of"),
        ("reserve nobody --key a --noise-multiplier 20 --rounds 1", 1, "there is none named 'nobody'"),
        ("reserve patients --noise-multiplier 20 --rounds 1", 2, "--key"),
        ("reserve patients --key a", 2, "--noise-multiplier"),
        ("commit patients --key a", 1, "has none with key 'a'"),
        ("status nobody", 1, "there is none named 'nobody'"),
        ("status --url nowhere", 1, "--url must name a database"),
    ],
)
def test_what_is_wrong_is_one_line(ledger: Typed, line: str, code: int, said: str) -> None:
    found, out, err = ledger(line)
    assert (found, out) == (code, "")
    assert said in err


def test_without_a_url_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("DPROUNDS_LEDGER", raising=False)
    assert main(["ledger", "status"]) == 1
    assert "--url must be given, or DPROUNDS_LEDGER be set." in capsys.readouterr().err


def test_a_token_is_shown_once_listed_and_revoked(ledger: Typed) -> None:
    code, out, err = ledger("token create nightly --budget patients --scope spend")
    assert code == 0
    assert re.fullmatch(r"dpr_[0-9a-f]{16}_[\w-]{43}", out)  # nothing else, so that a script may keep it
    assert err == "This is token nightly. Keep it now: it is never shown again."
    assert ledger("token create officer --all-budgets --scope admin --expires-at 2999-12-31 --json")[0] == 0
    found = json.loads(ledger("token list --json")[1])
    assert [(token["name"], token["budget"], token["scope"]) for token in found] == [
        ("nightly", "patients", "spend"),
        ("officer", None, "admin"),
    ]
    assert out not in ledger("token list")[1]
    assert ledger("token revoke nightly") == (0, "nightly is revoked.", "")
    assert "revoked" in ledger("token list")[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("create a", "Give either --budget NAME or --all-budgets."),
        ("create a --budget patients --all-budgets", "Give either --budget NAME or --all-budgets."),
        ("create a --budget nobody", "--budget must be that of an open budget: there is none named 'nobody'."),
        ("create a --all-budgets --scope root", "--scope must be one of 'read', 'spend', 'admin', got 'root'."),
        ("create a --all-budgets --expires-at soon", "--expires-at must be a date or a time"),
        ("create a --all-budgets --expires-at 2001-01-01", "--expires-at must be in the future"),
        ("revoke a", "NAME must be that of a token: there is none named 'a'."),
    ],
)
def test_a_token_that_is_wrong_is_refused_in_one_line(ledger: Typed, line: str, said: str) -> None:
    code, out, err = ledger(f"token {line}")
    assert (code, out) == (1, "")
    assert said in err
