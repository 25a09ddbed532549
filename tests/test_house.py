"""The house: a room imports only from the rooms before it, and uses no private name of another."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

import dprounds
from dprounds import Gaussian, PoissonSampled, mechanisms, questions

SOURCE = Path(dprounds.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"

# Everyone may use the first floor; the last floor's rooms may use all but each other.
GROUND = ["errors", "_intervals", "_validate", "guarantee", "statement"]
FLOORS = [
    "numerics",
    "divergences",
    "conversions",
    "accounting",
    "mechanisms",
    "certificates",
    "planning",
    "accountant",
    "ledger",
    "curves",
    "paper",
    "questions",
    "plots",
    "sweep",
    "web",
]
ROOF = ["cli", "integrations"]
DOOR = "__main__"  # opens the command line


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms of dprounds that a file names in its imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room"
            module = node.module or ""
            names += [f"dprounds.{alias.name}" for alias in node.names] if module == "dprounds" else [module]
    return {name.split(".")[1] for name in names if name.startswith("dprounds.")}


def allowed(room: str) -> set[str]:
    if room == DOOR:
        return {"cli"}
    if room in GROUND:
        return set(GROUND[: GROUND.index(room)])
    if room in ROOF:
        return {room, *GROUND, *FLOORS}
    return {*GROUND, *FLOORS[: FLOORS.index(room) + 1]}


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_from_rooms_before_it(path: Path) -> None:
    assert imported_rooms(path) <= allowed(room_of(path))


def test_every_file_is_in_a_known_room() -> None:
    assert {room_of(path) for path in FILES} <= {*GROUND, *FLOORS, *ROOF, DOOR}


def test_the_walk_sees_a_trespass(tmp_path: Path) -> None:
    intruder = tmp_path / "intruder.py"
    intruder.write_text("def f():\n    from dprounds.plots import figure_1\n    import dprounds.paper\n")
    assert imported_rooms(intruder) == {"plots", "paper"}
    assert not imported_rooms(intruder) <= allowed("conversions")


def loaded_modules(path: Path) -> set[Path]:
    """Files of the library that a file loads, when it is loaded or when one of its functions is called."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []  # loaded by nothing but checkers of types
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILE_OF else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {FILE_OF[name] for name in found if name in FILE_OF}


FILE_OF = {
    ".".join(("dprounds", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in FILES
}


def circle(files: dict[Path, set[Path]]) -> set[Path]:
    """Files that load themselves by way of others."""
    found = set()
    for path in files:
        reached: set[Path] = set()
        ahead = [path]
        while ahead:
            new = files[ahead.pop()] - reached - {path}
            reached |= new
            ahead += new
        if any(path in files[one] for one in reached):
            found.add(path)
    return found


def test_no_files_load_each_other() -> None:
    found = circle({path: loaded_modules(path) for path in FILES})
    assert sorted(str(path.relative_to(SOURCE)) for path in found) == []


def test_the_walk_sees_a_circle() -> None:
    a, b, c = Path("a"), Path("b"), Path("c")
    assert circle({a: {b}, b: {a}, c: {a}}) == {a, b}
    assert circle({a: {b, c}, b: {c}, c: set()}) == set()


OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}  # public, as Python's documentation has it


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in OF_NAMED_TUPLES


def private_names(path: Path) -> set[str]:
    """Private names that a file defines: functions, classes, fields, and what is set on an object."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {name for name in names if is_private(name)}


def private_uses(path: Path) -> set[tuple[str, str]]:
    """Private names that a file takes from elsewhere, with the room where an import says it: `""` for an attribute."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dprounds."):
            room = (node.module or "").split(".")[1]
            found |= {(alias.name, room) for alias in node.names if is_private(alias.name)}
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            found.add((node.attr, ""))
    return found


def trespasses(path: Path, own: str, defined: dict[str, set[str]]) -> set[str]:
    """Private names of other rooms that a file uses: by import, or of an object that its own room does not define."""
    elsewhere = set().union(*(names for room, names in defined.items() if room != own))
    return {
        name
        for name, room in private_uses(path)
        if (room and room != own) or (not room and name in elsewhere - defined.get(own, set()))
    }


def defined_by_room() -> dict[str, set[str]]:
    defined: dict[str, set[str]] = {}
    for path in FILES:
        defined.setdefault(room_of(path), set()).update(private_names(path))
    return defined


DEFINED = defined_by_room()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_uses_no_private_name_of_another(path: Path) -> None:
    assert trespasses(path, room_of(path), DEFINED) == set()


def test_the_walk_sees_private_names(tmp_path: Path) -> None:
    intruder = tmp_path / "intruder.py"
    intruder.write_text(
        "from dprounds.accounting.line import _Rows\n"
        "def f(run, line):\n"
        "    run._own = run.__class__\n"
        "    return run._own, run._law('remove'), line._bracket, line._replace(t=1)\n"
    )
    assert {"_law", "_bracket"} <= set().union(*DEFINED.values())
    assert trespasses(intruder, "curves", {**DEFINED, "curves": {"_own"}}) == {"_Rows", "_law", "_bracket"}
    assert trespasses(intruder, "accounting", DEFINED) == {"_law"}


ACCOUNTING = SOURCE / "accounting"
WAYS = sorted((ACCOUNTING / "ways").glob("*.py"))
# What a bracket of delta rests on.
PROVEN = [
    *(
        ACCOUNTING / f"{name}.py"
        for name in (
            "bracket",
            "cells",
            "contradictions",
            "kernel",
            "lattice",
            "law",
            "line",
            "over_rounds",
            "premises",
        )
    ),
    *sorted((ACCOUNTING / "levels").glob("*.py")),
]


def imported_modules(path: Path) -> set[str]:
    """Modules that the imports of a file name."""
    return {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }


@pytest.mark.parametrize("path", PROVEN, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_a_bracket_rests_on_knows_nothing_of_what_chooses(path: Path) -> None:
    assert not {name for name in imported_modules(path) if name.startswith("dprounds.accounting.ways")}


@pytest.mark.parametrize("path", WAYS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_chooses_has_no_constant_that_carries_a_proof(path: Path) -> None:
    assert "What carries a proof" not in path.read_text()


def test_the_walk_sees_what_chooses() -> None:
    assert "dprounds.accounting.ways.choice" in imported_modules(ACCOUNTING / "direction.py")
    assert "What carries a proof" in (ACCOUNTING / "line.py").read_text()


NOISES = {name for name in mechanisms.__all__ if name not in ("Mechanism", "Release", "Run")}
BLIND = [path for path in FILES if room_of(path) == "accounting" or path.name == "poisson_sampled.py"]


def kinds_asked(path: Path) -> set[str]:
    """Kinds of noise that a file tells apart, by `isinstance`, by the type itself or by a pattern."""
    asked = set()
    for node in ast.walk(ast.parse(path.read_text())):
        parts: list[ast.AST] = []
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            parts = [node.args[1]]
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            parts = [node.cls]
        asked |= {inner.id for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Name)}
    return asked & NOISES


@pytest.mark.parametrize("path", BLIND, ids=lambda path: str(path.relative_to(SOURCE)))
def test_neither_accounting_nor_sampling_asks_what_noise_it_is(path: Path) -> None:
    assert kinds_asked(path) == set()


def test_the_walk_sees_a_question_of_kind(tmp_path: Path) -> None:
    asking = tmp_path / "asking.py"
    asking.write_text(
        "isinstance(x, (Gaussian, int))\ntype(x) is Laplace\nmatch x:\n    case PureDP():\n        pass\n"
        "isinstance(x, Mechanism)\n"
    )
    assert kinds_asked(asking) == {"Gaussian", "Laplace", "PureDP"}


def rooms_walked(ask: Callable[[], object]) -> list[str]:
    """The room of each function that is called for an answer."""
    rooms: list[str] = []

    def see(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            rooms.append(room_of(path))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        ask()
    finally:
        sys.setprofile(before)
    return rooms


def test_one_exact_epsilon_is_a_short_walk() -> None:
    """Of few calls and few changes of room, once what is made once is made."""
    run = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062
    run.epsilon(delta=1e-5)
    rooms = rooms_walked(lambda: run.epsilon(delta=1e-5))
    assert 100 < len(rooms) <= 400
    assert sum(one != other for one, other in pairwise(rooms)) <= 40


def test_rounds_by_every_method_are_a_short_walk() -> None:
    """The command line's way: of few calls, and no value is checked more often than it is asked for."""
    setting = questions.Setting(noise_multiplier=1.1, batch_size=256, dataset_size=60_000)
    questions.rounds(setting, epsilon=3.0, delta=1e-5)
    rooms = rooms_walked(lambda: questions.rounds(setting, epsilon=3.0, delta=1e-5))
    assert 1000 < len(rooms) <= 4_800
    assert rooms.count("_validate") <= 100


def test_the_design_tells_how_long_the_middle_is() -> None:
    (said,) = re.findall(r"`accounting` and `curves` have some ([0-9,]+) lines", DESIGN.read_text())
    paths = [path for room in ("accounting", "curves") for path in (SOURCE / room).rglob("*.py")]
    found = sum(len(path.read_text().splitlines()) for path in paths)
    assert abs(found - int(said.replace(",", ""))) <= 0.05 * found
