"""What is refused is said in flags, without Python and without sending anybody in a circle; answers come first."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dprounds import questions
from dprounds.cli.entry import main

Command = Callable[[str], tuple[int, str, str]]
BUDGET = "--epsilon 3 --delta 1e-5"
NOISY = "gaussian, laplace, discrete-gaussian, discrete-laplace, got"

SENTENCES = [
    # a mechanism that a question cannot vary, whatever else is given or missing
    (
        f"noise {BUDGET} --rounds 3 --mechanism zcdp",
        f"'--mechanism': it must be one of {NOISY} 'zcdp'. Only these have",
    ),
    (f"rate {BUDGET} --rounds 3 --mechanism pure-dp", f"'--mechanism': it must be one of {NOISY} 'pure-dp'. Only"),
    (
        f"rate {BUDGET} --rounds 3 --mechanism pure-dp --noise-multiplier 1",
        f"it must be one of {NOISY} 'pure-dp'. Only",
    ),
    (f"noise {BUDGET} --rounds 3 --mechanism foo", f"'--mechanism': it must be one of {NOISY} 'foo'.\n"),
    (f"rounds {BUDGET} --mechanism foo", "pure-dp, exponential, approximate-dp, zcdp, got 'foo'.\n"),
    (
        f"rounds {BUDGET} --mechanism rdp-curve",
        "zcdp, got 'rdp-curve'. It is made of lists, which go into a file: --run.",
    ),
    (
        "convert --order 8 --rdp 1 --delta 1e-5 --method exact",
        "it must be one of moments, balle, closed-form, optimal, got",
    ),
    # what is asked for
    (f"rounds {BUDGET} --noise-multiplier 1 --rounds 3", "--rounds has no place here: it is what is asked for."),
    (f"rounds {BUDGET} --noise-multiplier 1 --epochs=3", "--epochs has no place here: it is what is asked for."),
    ("epsilon --epsilon 3 --delta 1e-5 --rounds 3", "--epsilon has no place here: it is what is asked for."),
    ("delta --epsilon 3 --delta 1e-5 --rounds 3", "--delta has no place here: it is what is asked for."),
    (
        f"noise {BUDGET} --rounds 3 --noise-multiplier 2",
        "--noise-multiplier has no place here: it is what is asked for.",
    ),
    (f"rate {BUDGET} --rounds 3 --sampling-rate 0.1", "--sampling-rate has no place here: it is what is asked for."),
    (f"rate {BUDGET} --rounds 3 --batch-size 10", "--batch-size has no place here: it is what is asked for."),
    (f"rate {BUDGET} --rounds 3 --rho 10", "No such option: --rho"),
    # what other tools call it
    (
        "plan --batch-size 256",
        "--batch-size has no place here: it is what is asked for. Type --habit for the batch size in use today.",
    ),
    ("plan --sigma 1", "--sigma has no place here: it is what is asked for."),
    ("plan --epsilon 3 --delta 1e-5 --epochs 3", "--dataset-size is missing: say how many records there are in all."),
    ("rounds --sigma 1", "No such option: --sigma. Type --noise-multiplier instead."),
    ("rounds --noise 1", "No such option: --noise. Type --noise-multiplier instead."),
    ("noise --lot-size 1", "No such option: --lot-size. Type --batch-size instead."),
    ("rounds --eps 1", "No such option: --eps. Type --epsilon instead."),
    ("noise --target_epsilon 1", "No such option: --target_epsilon. Type --epsilon instead."),
    ("epsilon --q 0.1", "No such option: --q. Type --sampling-rate instead."),
    ("epsilon --N 10", "No such option: --N. Type --dataset-size instead."),
    ("epsilon --steps 10", "No such option: --steps. Type --rounds instead."),
    ("convert --alpha 10", "No such option: --alpha. Type --order instead."),
    ("rounds --steps 10", "--steps has no place here: it is what is asked for."),
    ("noise --sigma 10", "--sigma has no place here: it is what is asked for."),
    ("convert --sigma 10", "No such option: --sigma\n"),
    # two values, of which one would be forgotten
    ("epsilon --delta 1e-5 --noise-multiplier 1 --rounds 3 --delta=1e-6", "--delta is given twice: leave one of them"),
    ("statement --noise-multiplier 1 --rounds 3 --delta 1e-5 --rounds 4", "--rounds is given twice: leave one of them"),
    # sampling that is half said
    (f"rounds {BUDGET} --noise-multiplier 1 --dataset-size 60000", "--batch-size is missing: the sampling rate is"),
    ("epsilon --delta 1e-5 --noise-multiplier 1 --rounds 3 --dataset-size 9", "--batch-size is missing"),
    (f"noise {BUDGET} --rounds 3 --dataset-size 60000", "--batch-size is missing"),
    (
        f"rounds {BUDGET} --noise-multiplier 1 --dataset-size 10 --batch-size 100",
        "--batch-size must be at most the --dataset-size 10, got 100.",
    ),
    # a picture that cannot be
    (
        f"rounds {BUDGET} --noise-multiplier 20 --plot x.gif",
        "'--plot': it must end in .png, .svg or .pdf, got 'x.gif'.",
    ),
    (f"rounds {BUDGET} --noise-multiplier 20 --plot nowhere/x.png", "'--plot': 'nowhere' is not a directory: make it"),
    ("sweep grid.toml --out x.csv --workers 2 --scheduler tcp://x", "--workers have no place here"),
]


@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_bad_usage_is_told_what_to_type(
    dprounds: Command, line: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("grid.toml").write_text('question = "rounds"\n[grid]\nnoise_multiplier = 1\nepsilon = 3\ndelta = 1e-5\n')
    code, out, err = dprounds(line)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "epsilon --delta 1e-5 --mechanism zcdp --rho 0.1 --rounds 3 --method exact",
            "No exact accounting: a part of the run bounds real Rényi orders only. Use --method optimal.",
        ),
        (
            f"noise {BUDGET} --mechanism laplace --rounds 1e18 --method balle",
            "No noise multiplier up to 1e+09 meets ε = 3 at δ = 1e-05: there ε is still ",
        ),
        (
            f"rounds {BUDGET} --noise-multiplier 1 --sampling-rate 0 --method balle",
            "9e+15 rounds of this step still meet ε = 3 at δ = 1e-05. Ask for a smaller ε or δ, or for a step that",
        ),
        (
            "epsilon --delta 1e-5 --mechanism zcdp --rho 0.1 --sampling-rate 0.1 --rounds 3",
            "what a Poisson-sampled zcdp costs: sample a gaussian, laplace, discrete-gaussian, discrete-laplace, "
            "randomized-response or pure-dp.",
        ),
    ],
)
def test_a_run_without_an_answer_is_not_explained_in_python(dprounds: Command, line: str, sentence: str) -> None:
    code, out, err = dprounds(line)
    assert (code, out) == (1, "")
    assert sentence in err


def test_a_row_without_an_answer_names_no_expression_that_is_cut(dprounds: Command, tmp_path: Path) -> None:
    parts = "".join(f"[[part]]\nnoise_multiplier = {noise}\nrounds = 3\n" for noise in range(10, 20))
    (tmp_path / "run.toml").write_text(f'[[part]]\nmechanism = "zcdp"\nrho = 0.001\nrounds = 1\n{parts}')
    _, out, _ = dprounds(f"epsilon --delta 1e-5 --run {tmp_path / 'run.toml'}")
    assert "exact: No exact accounting: a part of the run bounds real Rényi orders only.\n" in out


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("noise_multiplier = 1", "part 1: rounds are missing: give rounds, or epochs with a sampling rate."),
        ("noise_multiplier = 1\nrho = 3", "part 1: rho has no place here: a gaussian is made of noise_multiplier."),
        (
            "noise_multiplier = 1\nrounds = 1\nbatch_size = 5\ndataset_size = 2",
            "batch_size must be at most the dataset",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_said_in_the_files_words(
    dprounds: Command, content: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("epsilon-order.toml").write_text(f"[[part]]\n{content}\n")
    code, _, err = dprounds("epsilon --delta 1e-5 --run epsilon-order.toml")
    assert code == 1
    assert err.startswith("Error: epsilon-order.toml: part 1: ")
    assert sentence in err
    assert "--" not in err


def test_help_offers_only_what_a_question_takes(dprounds: Command) -> None:
    for line in ("noise", "rate"):
        _, out, _ = dprounds(f"{line} --help")
        assert "discrete-laplace." in " ".join(out.split())
        assert "zcdp" not in out
    assert "exact" not in dprounds("convert --help")[1]
    assert "of gaussian, laplace, discrete-gaussian and discrete-laplace" in re.sub(
        r"[│\s]+", " ", dprounds("rounds --help")[1]
    )


def refuse_to_compute(*words: object, **more: object) -> None:
    pytest.fail("it was computed")


@pytest.mark.parametrize("place", ["x.gif", "", "/nowhere/x.png"])
def test_a_picture_that_cannot_be_is_refused_before_the_work(
    dprounds: Command, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(questions, "rounds", refuse_to_compute)
    code, _, _ = dprounds(f"rounds {BUDGET} --noise-multiplier 20 --plot {place or tmp_path}")
    assert code == 2


def test_without_matplotlib_nothing_is_computed_for_a_picture(
    dprounds: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(questions, "rounds", refuse_to_compute)
    code, _, err = dprounds(f"rounds {BUDGET} --noise-multiplier 20 --plot {tmp_path / 'x.png'}")
    assert (code, err) == (1, "Error: Pictures need Matplotlib. In a checkout of dprounds: pip install '.[plots]'\n")


@pytest.mark.parametrize("form", ["", "--json"])
def test_an_answer_is_printed_though_it_cannot_be_drawn(dprounds: Command, form: str, tmp_path: Path) -> None:
    many = f"epsilon --delta 1e-5 --noise-multiplier 1e14 --rounds 1e30 {form} --method balle"
    code, out, err = dprounds(f"{many} --plot {tmp_path / 'x.png'}")
    assert code == 1
    assert out == dprounds(many)[1]
    assert err == (
        "Error: The picture cannot be drawn: 1e+30 rounds are more than the 2^53 that doubles count one by one.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that cannot be written")
def test_an_answer_is_printed_though_the_picture_cannot_be_written(dprounds: Command, tmp_path: Path) -> None:
    (tmp_path / "full.png").symlink_to("/dev/full")
    line = f"noise {BUDGET} --rounds 100 --method balle"
    code, out, err = dprounds(f"{line} --plot {tmp_path / 'full.png'}")
    assert (code, out) == (1, dprounds(line)[1])
    assert err == f"Error: {tmp_path / 'full.png'} cannot be written: No space left on device.\n"


def test_what_was_spent_before_is_blamed_where_it_leaves_nothing(dprounds: Command, tmp_path: Path) -> None:
    spent = tmp_path / "spent.toml"
    spent.write_text('[[part]]\nmechanism = "laplace"\nnoise_multiplier = 0.1\nrounds = 1\n')
    code, _, err = dprounds(f"noise {BUDGET} --rounds 10 --spent {spent}")
    assert code == 1
    assert err == (
        "Error: No noise multiplier meets ε = 3 at δ = 1e-05: what was spent before costs ε = 10 by itself. "
        "Raise ε or δ.\n"
    )


def test_an_interruption_has_a_code_of_its_own_and_no_traceback(
    dprounds: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*words: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(questions, "rounds", interrupt)
    code, out, err = dprounds(f"rounds {BUDGET} --noise-multiplier 20")
    assert (code, out) == (130, "")
    assert err in ("", "Error: Interrupted.\n")


def test_a_file_name_of_many_letters_does_not_fill_the_terminal(dprounds: Command) -> None:
    code, out, err = dprounds(f"epsilon --delta 1e-5 --run {'x' * 100_000}")
    assert (code, out) == (1, "")
    assert err.endswith("cannot be read: File name too long.\n")
    assert len(err) < 1000


def test_a_ledger_that_cannot_be_served_is_named_by_its_flag(dprounds: Command) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("sqlalchemy")
    code, out, err = dprounds("serve --port 0 --ledger foo://")
    assert (code, out) == (1, "")
    assert err.startswith("Error: --ledger must name a")


def test_a_program_that_ends_with_one_failed_unless_its_reader_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(given: list[str]) -> int:
        raise SystemExit(1)

    def loses_its_reader(given: list[str]) -> int:
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            raise SystemExit(1)  # noqa: B904  (as Rich does it)

    monkeypatch.setattr("dprounds.cli.entry._run", ends)
    with pytest.raises(SystemExit):
        main(["rounds"])
    monkeypatch.setattr("dprounds.cli.entry._run", loses_its_reader)
    monkeypatch.setattr("dprounds.cli.entry._discard_output", lambda: None)
    assert main(["rounds"]) == 0
