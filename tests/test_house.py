"""The house: a room imports only from the rooms before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dprounds

SOURCE = Path(dprounds.__file__).parent

# Everyone may use the first floor; the last floor's rooms may use all but each other.
GROUND = ["errors", "_validate", "guarantee"]
FLOORS = [
    "numerics",
    "divergences",
    "conversions",
    "accounting",
    "mechanisms",
    "planning",
    "accountant",
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
