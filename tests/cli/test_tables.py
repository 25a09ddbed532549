"""What a table shows stays true when it is read: changes, orders, repetitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dprounds import Gaussian, max_rounds
from dprounds.cli.output import _gain
from dprounds.questions import Answer
from dprounds.questions.wording import DELTA, ROUNDS

Command = Callable[[str], tuple[int, str, str]]


@pytest.mark.parametrize(
    ("ours", "theirs", "shown"),
    [
        (4.7e-142, 1e-5, "÷ 2.1e+136"),
        (5e-324, 0.5, "÷ 1.0e+323"),
        (1e-5, 4.7e-142, "× 2.1e+136"),
        (1e-8, 1e-5, "÷ 1,000"),
        (2e-8, 1e-5, "-99.8 %"),
        (8.7612e-08, 4.6506e-07, "-81.2 %"),
        (3e-5, 2e-5, "+50.0 %"),
        (0.5 * (1 + 2**-50), 0.5, "same"),
        (0.50001, 0.5, "+0.002 %"),
        (0.0, 1e-5, "-100.0 %"),
    ],
)
def test_a_change_of_a_real_number_says_how_large_it_is(ours: float, theirs: float, shown: str) -> None:
    row = Answer(method="exact", values={"delta": ours, "change_from_balle": ours - theirs})
    assert _gain(row, Answer(method="balle", values={"delta": theirs}), DELTA) == shown


@pytest.mark.parametrize(
    ("ours", "theirs", "shown"),
    [
        (21364, 18338, "+3,026 (+17 %)"),
        (18338, 3, "+18,335 (× 6,113)"),
        (3, 18338, "-18,335 (÷ 6,113)"),
        (30, 18338, "-18,308 (-99.8 %)"),
        (9, 0, "+9"),
        (0, 9, "-9 (-100.0 %)"),
        (18338, 18338, "same"),
        (18339, 18338, "+1 (+0.005 %)"),
        (18380, 18338, "+42 (+0.2 %)"),
    ],
)
def test_a_change_of_a_count_is_shown_in_full(ours: int, theirs: int, shown: str) -> None:
    row = Answer(method="exact", values={"rounds": ours, "change_from_balle": ours - theirs})
    assert _gain(row, Answer(method="balle", values={"rounds": theirs}), ROUNDS) == shown


def test_an_order_next_to_one_is_shown_with_the_digits_that_count(dprounds: Command) -> None:
    _, out, _ = dprounds("convert --order 1.0000001 --rdp 0.1 --delta 1e-5")
    assert [line.split()[-1] for line in out.splitlines() if line.startswith(" optimal")] == ["1.0000001"]
    assert "Balle's bound gives 115,129,238." in " ".join(out.split())


def test_a_comparison_that_reads_the_same_is_left_out(dprounds: Command) -> None:
    _, out, _ = dprounds("epsilon --delta 1e-5 --mechanism zcdp --rho 0.1 --rounds 3")
    assert "3 rounds cost ε = 3.5344 at δ = 1e-05 by the optimal bound.\n" in out


def test_repetitions_of_a_run_are_not_called_rounds(dprounds: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[[part]]\nnoise_multiplier = 100\nrounds = 10\n")
    _, out, _ = dprounds(f"rounds --epsilon 3 --delta 1e-5 --run {tmp_path / 'run.toml'}")
    assert "repetitions" in out.splitlines()[2]
    fit = max_rounds(Gaussian(100.0) * 10, epsilon=3.0, delta=1e-5)
    assert f"You may make {fit} repetitions of the run (10 rounds each) within ε = 3" in " ".join(out.split())
