"""What the comparison says of the peers' abilities is true of the peers that are installed, and of us."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from benchmarks.abilities import ABILITIES, MODULES, Ability, is_installed, one_defect
from dprounds import UnsupportedError

DATA = json.loads((Path(__file__).resolve().parents[2] / "docs/comparison.json").read_text())

each_ability = pytest.mark.parametrize("ability", ABILITIES, ids=lambda ability: ability.what)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the peers deprecate is not ours to mend
        yield


def test_the_page_lists_every_ability() -> None:
    told = [(one["what"], one["library"], one["by"], one["asked"]) for one in DATA["abilities"]]
    assert told == [(one.what, one.library, one.by, one.asked) for one in ABILITIES]


@pytest.mark.slow
@each_ability
def test_the_peer_answers_what_the_page_says(ability: Ability) -> None:
    pytest.importorskip(MODULES[ability.library], reason=f"{ability.library} is not installed")
    [told] = [one["epsilon"] for one in DATA["abilities"] if one["what"] == ability.what]
    assert ability.answer() == pytest.approx(told, rel=1e-5)


@each_ability
def test_dprounds_does_not_answer_it(ability: Ability) -> None:
    if not is_installed(ability):
        pytest.skip(f"{ability.library} is not installed")
    with pytest.raises((UnsupportedError, AttributeError)):
        ability.refused()


def test_dp_accounting_forgets_the_count_of_a_randomized_response_and_nothing_else() -> None:
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    counted, listed = one_defect()
    assert counted == pytest.approx(0.99998, abs=1e-4)
    assert listed == pytest.approx(4.99995, abs=1e-4)
