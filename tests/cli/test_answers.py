"""What an answer says beside its number: what it holds for, what to mind, and that there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dprounds.cli.options import SLIPS
from dprounds.questions.vocabulary import METHODS

Command = Callable[[str], tuple[int, str, str]]
SAMPLED = "--noise-multiplier 1.1 --sampling-rate 0.01"
ANSWERED = [
    f"rounds --epsilon 1 --delta 1e-5 {SAMPLED}",
    f"epsilon --delta 1e-5 --rounds 9 {SAMPLED}",
    f"delta --epsilon 1 --rounds 9 {SAMPLED}",
    "noise --epsilon 1 --delta 1e-5 --rounds 9 --sampling-rate 0.01",
    "rate --epsilon 1 --delta 1e-5 --rounds 9 --noise-multiplier 1.1",
]


def unwrapped(out: str) -> str:
    return " ".join(out.replace("│", " ").split())


@pytest.mark.parametrize("line", ANSWERED)
def test_an_answer_names_its_neighbours_and_its_sampling(dprounds: Command, line: str) -> None:
    _, out, _ = dprounds(f"{line} --method balle")
    assert "Holds for: add or remove one record, Poisson sampling (each round takes each" in unwrapped(out)
    _, out, _ = dprounds(f"{line} --method balle --json")
    found = json.loads(out)
    assert (found["relation"], found["sampling"], found["remarks"]) == ("add-remove", "poisson", [])


def test_an_answer_without_sampling_says_whose_neighbours_they_are(dprounds: Command) -> None:
    _, out, _ = dprounds("epsilon --delta 1e-5 --rounds 9 --noise-multiplier 9 --method balle")
    assert "Holds for the neighbours for which the sensitivity (the unit of the noise multiplier) was" in unwrapped(out)


@pytest.mark.parametrize("command", ["", "plan", "convert", "sweep", "certify", "statement", "ledger cost", "paper"])
def test_help_says_for_which_neighbours_and_sampling_the_numbers_hold(dprounds: Command, command: str) -> None:
    said = unwrapped(dprounds(f"{command} --help")[1])
    assert "hold for the neighbours" in said or "holds for the neighbours" in said or "hold for: add or remove" in said
    assert "sampl" in said


def test_help_offers_a_delta_of_zero_only_where_it_is_an_answer(dprounds: Command) -> None:
    assert "0 for pure DP" in unwrapped(dprounds("rounds --help")[1])
    assert "0 for pure DP" not in unwrapped(dprounds("plan --help")[1])


def test_a_delta_that_is_the_answer_gets_advice_that_can_be_followed(dprounds: Command) -> None:
    asked = "--noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 60 --method balle"
    _, out, _ = dprounds(f"delta --epsilon 0.5 {asked}")
    assert "Ask for the ε of a δ below it, such as 1e-05." in unwrapped(out)
    assert "Choose δ" not in out


@pytest.mark.parametrize("command", ["rounds", "epsilon", "delta", "noise", "rate"])
def test_help_says_what_is_assumed_and_what_the_methods_are(dprounds: Command, command: str) -> None:
    _, out, _ = dprounds(f"{command} --help")
    said = unwrapped(out)
    assert "Poisson sampling" in said
    assert "add or remove one record" in said
    for method, words in METHODS.items():
        assert f"{method}: {words}." in said


@pytest.mark.parametrize(
    "command", ["", "rounds", "epsilon", "delta", "noise", "rate", "convert", "sweep", "paper", "serve", "certify"]
)
def test_help_shows_no_types_of_python_with_flags(dprounds: Command, command: str) -> None:
    code, out, _ = dprounds(f"{command} --help")
    assert code == 0
    assert not [word for word in ("<bool>", "<int>", "<float>", "<list") if word in out]


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("rounds", ("--epsilon", "--delta")),
        ("epsilon", ("--delta",)),
        ("delta", ("--epsilon",)),
        ("noise", ("--epsilon", "--delta")),
        ("rate", ("--epsilon", "--delta")),
        ("convert", ("--order",)),
    ],
)
def test_help_marks_what_is_required(dprounds: Command, command: str, flags: tuple[str, ...]) -> None:
    _, out, _ = dprounds(f"{command} --help")
    marked = {line.split()[1] for line in out.splitlines() if "Required: " in line}
    assert marked == set(flags)


def test_every_slip_leads_to_a_flag(dprounds: Command) -> None:
    flags = " ".join(dprounds(f"{command} --help")[1] for command in ("epsilon", "rounds", "convert", "sweep"))
    for flag in set(SLIPS.values()):
        assert flag in flags
    assert not {f"--{slip}" for slip in SLIPS} & set(SLIPS.values())


def test_a_delta_that_protects_nobody_is_remarked_on(dprounds: Command) -> None:
    line = "noise --epsilon 8 --delta 1/10000 --batch-size 1024 --dataset-size 10000 --epochs 3 --method balle"
    code, out, _ = dprounds(line)
    assert code == 0
    assert "keeps 30 rounds (3 epochs of 10 batches) within" in unwrapped(out)
    assert "δ = 0.0001 is not below 1/10,000, one over the number of records" in unwrapped(out)
    _, out, _ = dprounds(f"{line} --json")
    assert len(json.loads(out)["remarks"]) == 1


def test_delta_zero_is_a_question(dprounds: Command) -> None:
    code, out, _ = dprounds("epsilon --mechanism laplace --noise-multiplier 2 --rounds 1 --delta 0")
    assert code == 0
    assert "1 round costs ε = 0.5 at δ = 0." in out
    _, out, _ = dprounds("rounds --mechanism laplace --noise-multiplier 2 --epsilon 5 --delta 0")
    assert "You may train 10 rounds within ε = 5 at δ = 0, not one more." in out
    _, out, _ = dprounds("noise --mechanism laplace --rounds 10 --epsilon 1 --delta 0")
    assert "A noise multiplier of 10 keeps 10 rounds within ε = 1 at δ = 0." in out


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("convert --order inf --rdp 0.5 --delta 1e-5", "0.5"),
        ("epsilon --mechanism laplace --noise-multiplier 2 --rounds 10 --delta 1e-5", "5"),
        ("epsilon --mechanism randomized-response --step-epsilon 1 --rounds 3 --delta 1e-5", "3"),
        ("epsilon --mechanism pure-dp --step-epsilon 0.1 --rounds 10 --delta 0", "1"),
        ("epsilon --mechanism pure-dp --step-epsilon 0.1 --rounds 3 --delta 0", "0.3"),
        ("epsilon --mechanism laplace --noise-multiplier 10 --rounds 3 --delta 0", "0.3"),
    ],
)
def test_what_is_exact_is_not_shown_above_itself(dprounds: Command, line: str, shown: str) -> None:
    _, out, _ = dprounds(line)
    (row,) = [words for words in map(str.split, out.splitlines()) if words[:1] == ["moments"]]
    assert row[1] == shown


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "epsilon --mechanism approximate-dp --step-epsilon 0.1 --step-delta 1e-6 --rounds 30 --delta 1e-5",
            "the failure mass of the rounds themselves is 3e-05 (30 × 1e-06), and δ must be above it. Ask for",
        ),
        (
            "epsilon --noise-multiplier 2 --rounds 3 --delta 0",
            "the loss has no largest value, so that no ε holds at δ =",
        ),
        ("convert --order 8 --rdp 0.5 --delta 0", "a finite order bounds no largest loss. Choose a δ above 0, or give"),
        ("convert --order 8 --rdp inf --delta 1e-5", "an infinite bound says nothing."),
    ],
)
def test_no_answer_is_no_success(dprounds: Command, line: str, says: str) -> None:
    code, out, err = dprounds(line)
    assert (code, out) == (1, "")
    assert err.startswith("Error: No ε ")
    assert says in err
    assert err.count("\n") == 1
    code, out, _ = dprounds(f"{line} --json")
    assert code == 1
    assert {row["epsilon"] for row in json.loads(out)["answers"]} == {"inf"}


def test_no_round_fits_for_a_reason(dprounds: Command) -> None:
    _, out, _ = dprounds("rounds --noise-multiplier 2 --epsilon 3 --delta 0")
    assert "Not one round fits within ε = 3 at δ = 0: the loss has no largest value" in unwrapped(out)
    _, out, _ = dprounds(
        "rounds --mechanism approximate-dp --step-epsilon 0.1 --step-delta 1e-4 --epsilon 1 --delta 1e-5"
    )
    assert "the failure mass of the rounds themselves is 0.0001, and δ must be above it." in unwrapped(out)


def test_no_rounds_have_no_order(dprounds: Command) -> None:
    _, out, _ = dprounds("epsilon --rounds 0 --noise-multiplier 1 --delta 1e-5")
    assert "order" not in out


def test_words_of_a_file_are_not_called_flags(dprounds: Command, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(
        'question = "rounds"\n[grid]\nnoise_multiplier = "x"\nepsilon = 1\ndelta = 0.1\n'
    )
    _, _, err = dprounds(f"sweep {tmp_path / 'grid.toml'} --out {tmp_path / 'x.csv'}")
    assert "noise_multiplier" in err
    assert "--noise" not in err


WIDE = [
    "rounds --epsilon 2 --delta 1e-7 --noise-multiplier 1 --batch-size 100 --dataset-size 1e6",
    "rounds --epsilon 2 --delta 1e-9 --noise-multiplier 1 --batch-size 100 --dataset-size 1e7",
    "rounds --epsilon 2 --delta 1e-10 --noise-multiplier 1 --batch-size 66 --dataset-size 1e7",
    "epsilon --delta 1e-7 --noise-multiplier 1 --sampling-rate 1e-6 --rounds 1e10",
    "noise --epsilon 1e-3 --delta 1e-7 --rounds 1e6",
]


@pytest.mark.parametrize("columns", [80, 60, 40])
@pytest.mark.parametrize("line", WIDE)
def test_tables_fit_and_the_answer_is_whole(
    dprounds: Command, line: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = dprounds(line)
    assert max(map(len, out.splitlines())) <= columns
    assert "…" not in out
    monkeypatch.setenv("COLUMNS", "200")
    _, wide, _ = dprounds(line)
    answers = [
        [words[:2] for words in map(str.split, text.splitlines()) if words[:1] == ["exact"]] for text in (out, wide)
    ]
    assert answers[0] == answers[1] != []
    rows = [words for words in map(str.split, out.splitlines()) if words and words[0] in METHODS]
    assert len(rows) == len(METHODS)


def test_a_terminal_of_twenty_columns_breaks_lines_and_cuts_none(
    dprounds: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    _, out, _ = dprounds(WIDE[0])
    assert "9,675,445" in [word for line in out.splitlines() if " exact " in f" {line} " for word in line.split()]


def test_a_column_has_one_notation(dprounds: Command) -> None:
    _, out, _ = dprounds("delta --epsilon 1.5 --noise-multiplier 1 --sampling-rate 0.01 --rounds 300")
    shown = [words[1] for words in map(str.split, out.splitlines()) if words and words[0] in METHODS]
    assert len({"e" in text for text in shown}) == 1
    _, out, _ = dprounds("rounds --epsilon 0.01 --delta 1e-9 --noise-multiplier 10 --sampling-rate 1e-6")
    assert "e+" not in out.split("You may")[0]


@pytest.mark.parametrize("method", ["", " --method exact"])
def test_what_has_no_exact_sum_is_told_what_to_ask_for(dprounds: Command, method: str) -> None:
    line = f"epsilon --delta 1e-5 --noise-multiplier 0.01 --sampling-rate 0.01 --rounds 3{method}"
    code, out, err = dprounds(line)
    said = unwrapped(out + err)
    for insider in ("lattice", "window", "moment function", "was sought", "Re z"):
        assert insider not in said
    if method:
        assert (code, err.endswith(" Use --method optimal.\n")) == (1, True)
    else:
        assert code == 0
        assert "exact: A sampled part of this run has too little noise for an exact sum." in said
