"""Whatever carries the proof has a mutant, so that `make mutants` sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dprounds
from tests.mutants import MUTANTS

SOURCE = Path(dprounds.__file__).parent
SECTION = re.compile(r"^# --- What carries a proof.*?(?=^# --- |^class |^def |^@)", re.MULTILINE | re.DOTALL)


def proof_constants(source: str) -> list[str]:
    """The constants of a file that stand under the heading of what carries a proof."""
    return [name for section in SECTION.findall(source) for name in re.findall(r"^([A-Z][A-Z_]+) = ", section, re.M)]


CONSTANTS = [
    f"{path.stem}: {name}" for path in sorted(SOURCE.rglob("*.py")) for name in proof_constants(path.read_text())
]


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_that_carries_the_proof_has_a_mutant(name: str) -> None:
    assert name in MUTANTS


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.replaces is not None])
def test_what_a_mutant_replaces_is_in_the_checker_once(name: str) -> None:
    assert (SOURCE / "certificates" / "checker.py").read_text().count(MUTANTS[name].replaces or "") == 1


def test_the_constants_are_seen() -> None:
    assert {"line: SUMMAND_ERROR", "over_rounds: MASS_ERROR", "lattice: SIDE_ERROR"} <= set(CONSTANTS)
    text = "# --- What carries a proof.\n\n# Why.\nA_B = 1.0\n\n# --- What only tunes speed.\n\nC_D = 2\n"
    assert proof_constants(text) == ["A_B"]
