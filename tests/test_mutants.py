"""Whatever carries the proof has a mutant, so that `make mutants` sees it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import dprounds
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from tests.mutants import MUTANTS

SOURCE = Path(dprounds.__file__).parent
SECTION = re.compile(r"^# --- What carries a proof.*?(?=^# --- |^class |^def |^@)", re.MULTILINE | re.DOTALL)


def proof_constants(source: str) -> list[str]:
    """The constants of a file that stand under the heading of what carries a proof."""
    return [name for section in SECTION.findall(source) for name in re.findall(r"^([A-Z][A-Z_]+) = ", section, re.M)]


PLACES = [(path, name) for path in sorted(SOURCE.rglob("*.py")) for name in proof_constants(path.read_text())]
CONSTANTS = [f"{path.stem}: {name}" for path, name in PLACES]
PAGE = Path(__file__).parents[1] / "docs" / "theory" / "constants.md"
ROW = re.compile(r"^\| `([\w/.]+)` \| `(\w+)` \| (.+?) \| .+ \| .+ \|$", re.MULTILINE)


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_that_carries_the_proof_has_a_mutant(name: str) -> None:
    assert name in MUTANTS


def number(shown: str) -> float:
    """A value as the page shows it: a number, or as many units of rounding."""
    return float(shown.removesuffix(" u")) * (UNIT_ROUNDOFF if shown.endswith(" u") else 1.0)


def test_the_page_of_constants_is_the_code() -> None:
    """Every constant that carries the proof has its row, with its value, and no row is without its constant."""
    rows = {(file, name): shown for file, name, shown in ROW.findall(PAGE.read_text())}
    assert set(rows) == {(str(path.relative_to(SOURCE)), name) for path, name in PLACES}
    for (file, name), shown in rows.items():
        module = importlib.import_module("dprounds." + file.removesuffix(".py").replace("/", "."))
        value = getattr(module, name)
        if np.ndim(value) == 0:
            assert number(shown) == value, (file, name)


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.replaces is not None])
def test_what_a_mutant_replaces_is_in_the_checker_once(name: str) -> None:
    assert (SOURCE / "certificates" / "checker.py").read_text().count(MUTANTS[name].replaces or "") == 1


def test_the_constants_are_seen() -> None:
    assert {"line: SUMMAND_ERROR", "over_rounds: MASS_ERROR", "lattice: SIDE_ERROR"} <= set(CONSTANTS)
    text = "# --- What carries a proof.\n\n# Why.\nA_B = 1.0\n\n# --- What only tunes speed.\n\nC_D = 2\n"
    assert proof_constants(text) == ["A_B"]
