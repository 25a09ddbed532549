"""The command line as a new user meets it: answers, JSON equal to the library, one line for whatever is wrong."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dprounds import (
    Accountant,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    delta_from_rdp,
    epsilon_from_rdp,
    max_rounds,
    max_sampling_rate,
    min_noise_multiplier,
    rdp_from_dp,
)
from dprounds.cli import entry, main, options
from dprounds.cli.asked import plain
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.plots.style import ENDINGS
from dprounds.questions import vocabulary

SGD = "--noise-multiplier 1.1 --batch-size 256 --dataset-size 60000"
STEP = PoissonSampled(Gaussian(1.1), 256 / 60_000)
RUN = STEP * 14_100


def column(out: str, name: str) -> dict[str, Any]:
    return {row["method"]: row[name] for row in json.loads(out)["answers"]}


QUESTIONS = [
    (
        "rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20",
        "rounds",
        lambda m: max_rounds(Gaussian(20.0), epsilon=6.0, delta=1e-5, method=m),
    ),
    (
        f"rounds --epsilon 3 --delta 1e-5 {SGD}",
        "rounds",
        lambda m: max_rounds(STEP, epsilon=3.0, delta=1e-5, method=m),
    ),
    (f"epsilon --delta 1e-5 --epochs 60 {SGD}", "epsilon", lambda m: RUN.epsilon(delta=1e-5, method=m)),
    (
        "epsilon --delta 1e-5 --noise-multiplier 1.1 --sampling-rate 256/60000 --rounds 14100",
        "epsilon",
        lambda m: RUN.epsilon(delta=1e-5, method=m),
    ),
    (f"delta --epsilon 3 --epochs 60 {SGD}", "delta", lambda m: RUN.delta(epsilon=3.0, method=m)),
    (
        "noise --epsilon 3 --delta 1e-5 --rounds 100",
        "noise_multiplier",
        lambda m: min_noise_multiplier(lambda s: Gaussian(s) * 100, epsilon=3.0, delta=1e-5, method=m),
    ),
    (
        "rate --epsilon 3 --delta 1e-5 --noise-multiplier 1 --rounds 1000",
        "sampling_rate",
        lambda m: max_sampling_rate(
            lambda q: PoissonSampled(Gaussian(1.0), q) * 1000, epsilon=3.0, delta=1e-5, method=m
        ),
    ),
    (
        "epsilon --delta 1e-6 --mechanism laplace --noise-multiplier 10 --rounds 50",
        "epsilon",
        lambda m: (Laplace(10.0) * 50).epsilon(delta=1e-6, method=m),
    ),
    (
        "rounds --epsilon 2 --delta 1e-6 --mechanism randomized-response --step-epsilon 0.1",
        "rounds",
        lambda m: max_rounds(RandomizedResponse(0.1), epsilon=2.0, delta=1e-6, method=m),
    ),
]


@pytest.mark.parametrize(("line", "name", "own"), QUESTIONS, ids=[line for line, *_ in QUESTIONS])
def test_json_is_the_library_to_the_last_digit(dprounds: Any, line: str, name: str, own: Any) -> None:
    code, out, err = dprounds(f"{line} --json")
    assert (code, err) == (0, "")
    assert column(out, name) == {method: own(method) for method in RUN_METHODS}
    answered = json.loads(out)
    assert answered["question"] == line.split(maxsplit=1)[0]
    code, out, _ = dprounds(f"{line} --json --method optimal")
    assert column(out, name) == {"optimal": own("optimal")}


@pytest.mark.parametrize(
    ("line", "name", "own"),
    [
        ("--rdp 0.5 --delta 1e-5", "epsilon", lambda m: epsilon_from_rdp(0.5, order=8.0, delta=1e-5, method=m)),
        ("--rdp 0.5 --epsilon 2", "delta", lambda m: delta_from_rdp(0.5, order=8.0, epsilon=2.0, method=m)),
        ("--epsilon 2 --delta 1e-5", "rdp", lambda m: rdp_from_dp(2.0, order=8.0, delta=1e-5, method=m)),
    ],
)
def test_conversions_are_the_librarys(dprounds: Any, line: str, name: str, own: Any) -> None:
    code, out, _ = dprounds(f"convert --order 8 {line} --json")
    assert code == 0
    assert column(out, name) == {method: own(method) for method in RUN_METHODS[:4]}


def test_the_table_has_a_row_a_method_and_one_sentence(dprounds: Any) -> None:
    code, out, err = dprounds("rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20")
    assert (code, err) == (0, "")
    rows = {words[0]: words[1:] for words in (line.split() for line in out.splitlines()) if words}
    assert [rows[method][0] for method in RUN_METHODS] == ["501", "603", "603", "603", "685"]
    assert "+184 (+37 %)" in out
    assert "You may train 685 rounds within ε = 6 at δ = 1e-05, not one more;" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_printed_epsilon_is_never_below_the_computed_one(dprounds: Any) -> None:
    for rounds in (1, 7, 100, 12_345):
        _, out, _ = dprounds(f"epsilon --delta 1e-5 --noise-multiplier 3 --rounds {rounds}")
        printed = re.search(r"ε = ([0-9.e+-]+) at", out)
        assert printed
        assert float(printed[1]) >= (Gaussian(3.0) * rounds).epsilon(delta=1e-5)


def test_a_run_of_several_parts_is_read_from_a_file(dprounds: Any, tmp_path: Path) -> None:
    toml, spent = tmp_path / "run.toml", tmp_path / "spent.json"
    toml.write_text("[[part]]\nnoise_multiplier = 5\nrounds = 10\n[[part]]\nnoise_multiplier = 9\nrounds = 20\n")
    run = Gaussian(5.0) * 10 + Gaussian(9.0) * 20
    _, out, _ = dprounds(f"epsilon --delta 1e-5 --run {toml} --json")
    assert column(out, "epsilon")["exact"] == run.epsilon(delta=1e-5)
    accountant = Accountant()
    accountant.record(run)
    spent.write_text(accountant.to_json())
    _, out, _ = dprounds(f"rounds --epsilon 8 --delta 1e-5 --noise-multiplier 20 --spent {spent} --json")
    assert column(out, "rounds")["exact"] == max_rounds(Gaussian(20.0), epsilon=8.0, delta=1e-5, spent=run)


HOSTILE = [
    *(f"rounds --delta 1e-5 --noise-multiplier 1 --epsilon {bad}" for bad in ("nan", "1e400", "-1", "abc", "1/0", "")),
    *(f"rounds --epsilon 1 --noise-multiplier 1 --delta {bad}" for bad in ("nan", "1e-400", "1", "-1", "abc", "1e400")),
    *(f"rounds --epsilon 1 --delta 1e-5 --noise-multiplier {bad}" for bad in ("nan", "0", "-1", "inf", "1e400")),
    *(f"rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --sampling-rate {bad}" for bad in ("nan", "256", "-0.1")),
    *(f"epsilon --delta 1e-5 --noise-multiplier 1 --rounds {bad}" for bad in ("nan", "1.5", "-1", "9" * 999, "1e400")),
    *(f"convert --order {bad} --rdp 1 --delta 1e-5" for bad in ("nan", "1", "0.5", "abc")),
    *("rounds", "rounds --epsilon 1", "epsilon", "delta", "noise", "rate", "convert", "nonsense", "rounds --nonsense"),
    *("rounds extra", "rounds --epsilon", "rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --method best"),
    *(
        "rounds --epsilon 1 --delta 1e-5 --mechanism gauss",
        "noise --epsilon 1 --delta 1e-5 --mechanism zcdp --rounds 1",
    ),
    "epsilon --delta 1e-5 --noise-multiplier 1 --rounds 1 --epochs 1",
    "epsilon --delta 1e-5 --noise-multiplier 1 --epochs 1",
    "rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --batch-size 256",
    "rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --sampling-rate 0.1 --batch-size 2 --dataset-size 20",
    "rounds --epsilon 1 --delta 1e-5 --mechanism zcdp --rho 0.1 --method exact",
    "rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --sampling-rate 0",
    "epsilon --delta 1e-5 --run DIRECTORY",
    "epsilon --delta 1e-5 --run EMPTY",
    "epsilon --delta 1e-5 --run MISSING",
    "rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20 --plot DIRECTORY",
    "rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20 --plot MISSING/x.png",
    "rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20 --plot x.doc",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_whatever_is_wrong_takes_one_line_on_stderr(dprounds: Any, line: str, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    places = {"DIRECTORY": tmp_path, "EMPTY": tmp_path / "empty.toml", "MISSING": tmp_path / "missing"}
    for word, path in places.items():
        line = line.replace(word, str(path))
    code, out, err = dprounds(line)
    assert code in (1, 2)
    assert out == ""
    assert err.startswith("Error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("rounds --epsilon 1 --delta 1e-5 --noise-multiplier nan", 1),
        ("rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --sampling-rate 256", 1),
        ("rounds --epsilon 1 --delta 1e-5", 2),
        ("rounds --epsilon abc", 2),
        ("rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --method foo", 2),
        ("rounds --epsilon 1 --delta 1e-5 --mechanism foo", 2),
        ("rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --batch-size 100 --dataset-size 10", 2),
        ("epsilon --delta 1e-5 --noise-multiplier 1 --sampling-rate 0.1 --epochs 0", 1),
        ("--help", 0),
        ("rounds --help", 0),
        ("--version", 0),
    ],
)
def test_exit_codes_tell_answered_from_refused_from_bad_usage(dprounds: Any, line: str, code: int) -> None:
    assert dprounds(line)[0] == code


def test_the_librarys_sentence_names_the_flag(dprounds: Any) -> None:
    _, _, err = dprounds("rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --sampling-rate 256")
    assert err == (
        "Error: --sampling-rate must be in [0, 1], got 256. It is a probability, not a batch size: "
        "pass --batch-size / --dataset-size.\n"
    )
    for flag in ("epsilon", "delta", "noise-multiplier", "sampling-rate", "batch-size", "dataset-size"):
        words = {"epsilon": "1", "delta": "1e-5", "noise-multiplier": "1", "batch-size": "2", "dataset-size": "9"}
        if flag == "sampling-rate":
            words = {name: value for name, value in words.items() if "size" not in name}
        line = " ".join(f"--{name} {value}" for name, value in (words | {flag: "-3"}).items())
        code, _, err = dprounds(f"rounds {line}")
        assert code == 1
        assert err.startswith(f"Error: --{flag} must be ")


def test_a_missing_flag_is_named_as_it_is_typed(dprounds: Any) -> None:
    _, _, err = dprounds("rounds --epsilon 1 --delta 1e-5 --noise-multiplier 1 --batch-size 256")
    assert "--dataset-size is missing" in err


def test_the_endings_of_pictures_are_those_of_the_library() -> None:
    assert {".png", ".svg", ".pdf"} == set(options.PICTURES) == set(ENDINGS)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rounds",
            "epsilon",
            "delta",
            "noise",
            "rate",
            "convert",
            "sweep",
            "certify",
            "verify",
            "statement",
            "paper",
            "serve",
        ),
        *(f"ledger {word}" for word in ("open", "cost", "reserve", "begin", "commit", "void")),
        *(f"ledger {word}" for word in ("status", "history", "verify", "refusals")),
        *(f"ledger token {word}" for word in ("create", "list", "revoke")),
    ],
)
def test_every_command_has_help_with_an_example(dprounds: Any, command: str) -> None:
    code, out, _ = dprounds(f"{command} --help")
    assert code == 0
    assert f"Example: dprounds {command}" in " ".join(out.split())


@pytest.mark.parametrize(
    ("line", "ending"),
    [
        ("rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20", "png"),
        ("epsilon --delta 1e-5 --noise-multiplier 20 --rounds 100", "svg"),
        ("delta --epsilon 2 --noise-multiplier 20 --rounds 100", "pdf"),
        ("noise --epsilon 2 --delta 1e-5 --rounds 100", "png"),
        ("rate --epsilon 2 --delta 1e-5 --noise-multiplier 1 --rounds 100", "svg"),
        ("convert --order 8 --rdp 0.5 --delta 1e-5", "pdf"),
    ],
)
def test_every_question_is_drawn(dprounds: Any, tmp_path: Path, line: str, ending: str) -> None:
    path = tmp_path / f"answer.{ending}"
    code, _, err = dprounds(f"{line} --plot {path}")
    assert (code, err) == (0, "")
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)


def ask(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as a shell would start it."""
    return subprocess.run(
        [sys.executable, "-m", "dprounds", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
        encoding=environment.get("PYTHONIOENCODING", "utf-8"),
    )


def test_the_shell_sees_the_exit_code() -> None:
    assert ask("rounds", "--epsilon", "1").returncode == 2
    assert ask("rounds", "--epsilon", "nan", "--delta", "1e-5").returncode == 1
    done = ask("rounds", "--epsilon", "6", "--delta", "1e-5", "--noise-multiplier", "20", "--json")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_has_seen_enough_ends_the_command_quietly() -> None:
    command = f"{sys.executable} -m dprounds rounds --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("columns", [40, 64, 80])
def test_help_cuts_no_flag_in_a_narrow_terminal(columns: int) -> None:
    shown = ask("rounds", "--help", COLUMNS=str(columns), PYTHONIOENCODING="utf-8").stdout
    assert "…" not in shown
    for name in (*vocabulary.QUESTIONS["rounds"].flags, "json", "plot", "run", "spent"):
        assert f"--{name.replace('_', '-')} " in shown


def test_help_loads_neither_the_library_nor_scipy() -> None:
    code = (
        "import sys; from dprounds.cli import main; main(['--help']); "
        "print([m for m in ('numpy', 'scipy', 'matplotlib', 'dprounds.mechanisms') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_question_loads_neither_pictures_nor_the_page_nor_what_adapters_need() -> None:
    """What makes a person wait is loading, of SciPy above all; benchmarks/cli.py measures how long that is."""
    heavy = ("matplotlib", "fastapi", "uvicorn", "distributed", "pyarrow", "pandas", "sklearn", "torch", "scipy")
    words = ["rounds", "--epsilon", "3", "--delta", "1e-5", *SGD.split()]
    code = (
        f"import sys; from dprounds.cli import main; main({words}); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_shell_completes_commands_methods_and_mechanisms() -> None:
    def completions(line: str) -> list[str]:
        words = line.split(" ")
        done = ask(_DPROUNDS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), COMP_POINT="0")
        return done.stdout.split()

    assert completions("dprounds ro") == ["rounds"]
    assert completions("dprounds rounds --noise-m") == ["--noise-multiplier"]
    assert completions("dprounds rounds --method op") == ["optimal"]
    assert completions("dprounds rounds --mechanism z") == ["zcdp"]
    assert completions("dprounds noise --mechanism z") == []
    assert completions("dprounds convert --method ex") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1e-400", "too small"),
        ("0.0000001e-330", "too small"),
        ("1e-200/1e200", "too small"),
        ("1e400", "too large"),
        ("-1e400", "too large"),
    ],
)
def test_a_number_without_a_double_is_said_to_be_one(dprounds: Any, text: str, says: str) -> None:
    code, out, err = dprounds(f"epsilon --delta={text} --noise-multiplier 1 --rounds 3")
    assert (code, out) == (2, "")
    assert f"{text!r} is {says} for a double." in err
    assert options.number("0e-999") == 0
    assert options.number("inf") == math.inf


def test_numbers_are_read_as_people_write_them() -> None:
    assert options.number("14062") == 14062
    assert options.number("9007199254740993") == 2**53 + 1
    assert options.number("1e6") == 1e6
    assert options.number("256/60000") == 256 / 60_000
    assert math.isnan(options.number("nan"))


@pytest.mark.parametrize("words", [["--json"], [], ["--help"]])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_greek_letters_gets_an_answer(words: list[str], encoding: str) -> None:
    question = ["epsilon", "--noise-multiplier", "1", "--rounds", "10", "--delta", "1e-5"]
    done = ask(*question, *words, PYTHONIOENCODING=encoding, PYTHONUTF8="0", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")
    if words == ["--json"]:
        assert json.loads(done.stdout)["question"] == "epsilon"


@pytest.mark.parametrize(("where", "code"), [(">&-", 0), (">/dev/full", 1), ("2>&-", 0)])
def test_an_output_that_is_closed_or_full_is_no_traceback(where: str, code: int) -> None:
    command = f"{sys.executable} -m dprounds epsilon --noise-multiplier 1 --rounds 10 --delta 1e-5 {where}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_a_command_computes_in_one_thread_unless_another_number_was_chosen() -> None:
    """Threads that wait for each other made some answers take three times as long, and seven on a busy machine."""
    chosen = {"OMP_NUM_THREADS": "4"}
    entry.compute_alone(chosen)
    assert chosen == {"OMP_NUM_THREADS": "4"}
    code = "import dprounds.cli as c, os, sys; c.main(['--version']); assert 'numpy' not in sys.modules; "
    code += "print(os.environ['OPENBLAS_NUM_THREADS'])"
    bare = {name: value for name, value in os.environ.items() if name not in entry.THREADS}
    done = subprocess.run([sys.executable, "-c", code], env=bare, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "1"


@pytest.mark.parametrize(
    "line",
    [
        "epsilon --noise-multiplier 1 --rounds 10 --delta 1e-5",
        "statement --noise-multiplier 1 --rounds 10 --delta 1e-5",
    ],
)
def test_a_reader_that_has_seen_enough_is_no_failure(line: str) -> None:
    command = f"{sys.executable} -m dprounds {line} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def by_typer(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dprounds.cli.entry.plain", lambda given: None)
        code = main(arguments)
    return code, capsys.readouterr().out


PLAIN = [
    "statement --noise-multiplier 20 --rounds 500 --delta 1e-5",
    "statement --noise-multiplier=1.1 --batch-size 256 --dataset-size 60000 --epochs 6 --delta 1e-5 --format json",
    "rounds --epsilon 6 --delta 1e-5 --noise-multiplier 20 --json",
    "epsilon --delta=1e-5 --noise-multiplier 1.1 --sampling-rate 256/60000 --rounds 1e3 --json --method exact",
    "epsilon --delta 1e-5 --mechanism laplace --noise-multiplier 2 --rounds 10 --json",
    "rounds --spent docs/howto/spent.json --epsilon 3 --delta 1e-5 --noise-multiplier 1.1 --sampling-rate 0.01 --json",
    "convert --order 8 --rdp 0.5 --delta 1e-5 --json",
    "certify --noise-multiplier 20 --rounds 5 --epsilon=1 --out /dev/null --digits 3",
    "certify --noise-multiplier 20 --rounds 5 --delta 1e-5 --two-sided --out /dev/null",
]


@pytest.mark.parametrize("typed", PLAIN)
def test_a_plain_question_is_asked_at_once_and_answered_as_by_typer(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = typed.split()
    assert plain(arguments) is not None
    code = main(arguments)
    assert (code, capsys.readouterr().out) == by_typer(arguments, capsys)


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "--help",
        "rounds",
        "rounds --help",
        "rounds --epsilon",
        "rounds --epsilon nonsense",
        "rounds --epsilon -1",
        "rounds --epsilon --delta 1e-5",
        "rounds --epsilon=",
        "rounds --sigma 1",
        "rounds 6",
        "rounds --method nonsense",
        "rounds --mechanism rdp-curve",
        "rounds --epsilon 6 --plot picture.png",
        "rounds --epsilon 1e999",
        "certify --noise-multiplier 20 --rounds 5 --delta 1e-5 --digits 3.5",
        "certify --noise-multiplier 20 --rounds 5 --delta 1e-5 --digits -3",
        "certify --noise-multiplier 20 --rounds 5 --delta 1e-5 --out=",
        "certify --two-sided=yes",
        "certify --out claim.json --method exact",
        "ledger status",
        "sweep grid.toml",
    ],
)
def test_whatever_is_not_plain_is_left_to_typer(typed: str) -> None:
    asked = plain(typed.split())
    assert asked is None or typed == "rounds"  # which lacks something, as the question itself says


def test_a_plain_question_loads_neither_typer_nor_pydantic() -> None:
    code = (
        "import sys; from dprounds.cli import main; main('convert --order 8 --rdp 0.5 --delta 1e-5'.split()); "
        "print([name for name in ('typer', 'pydantic', 'numpy.ma', 'scipy') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
