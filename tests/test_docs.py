"""The documentation's pictures are those that its script draws, and every page shows what exists."""

from __future__ import annotations

import ast
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
NUMBER = re.compile(r"-?\d+\.\d+")
# Ours; the folder holds other scripts' pictures too.
SHOWN = re.compile(r"```\{image\} (\S*figures/(\S+)\.svg)")
# Matplotlib names a clipped area by a hash of its edges, which the last bit of one of them changes.
CLIPPED = re.compile(r"\bp[0-9a-f]{10}\b")
MOST_BYTES = 100_000
# Points, of 72 to an inch: less than anybody sees, more than a rounding of the last digit moves a line.
NEAR = 0.02


def script() -> ModuleType:
    spec = spec_from_file_location("documentation_figures", DOCS / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def maker(picture: str) -> str:
    """The version of Matplotlib that drew it: another one sets letters and ticks a little differently."""
    found = re.search(r"Matplotlib v([\w.]+)", picture)
    return found[1] if found else ""


def same_picture(first: str, second: str) -> bool:
    first, second = CLIPPED.sub("area", first), CLIPPED.sub("area", second)
    ours, theirs = NUMBER.findall(first), NUMBER.findall(second)
    return NUMBER.sub("#", first) == NUMBER.sub("#", second) and all(
        abs(float(a) - float(b)) <= NEAR for a, b in zip(ours, theirs, strict=True)
    )


def test_the_pictures_are_what_the_script_draws(tmp_path: Path) -> None:
    figures = script()
    figures.main(tmp_path)
    drawn = {path.stem: path.read_text() for path in tmp_path.iterdir()}
    assert set(drawn) == set(figures.PICTURES)
    for name, picture in drawn.items():
        kept = (DOCS / "figures" / f"{name}.svg").read_text()
        assert len(kept.encode()) < MOST_BYTES
        if maker(kept) == maker(picture):
            assert same_picture(kept, picture), f"{name}.svg is not what the code draws: run python docs/figures.py"


def test_a_moved_line_is_another_picture() -> None:
    line = '<path d="M 10.25 20.5 L 30.75 40.125"/>'
    assert same_picture(line, line.replace("40.125", "40.126"))
    assert not same_picture(line, line.replace("40.125", "40.25"))


def test_the_name_of_a_clipped_area_is_no_part_of_a_picture() -> None:
    line = '<path d="M 10.25 20.5" clip-path="url(#pba190b0342)"/>'
    assert same_picture(line, line.replace("pba190b0342", "p1760bf209e"))
    assert not same_picture(line, line.replace("clip-path", "mask"))
    assert not same_picture(line, line.replace("path", "use"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_picture_on_a_page_exists(page: Path) -> None:
    for path, _ in SHOWN.findall(page.read_text()):
        assert (page.parent / path).is_file()


def test_every_picture_of_the_script_is_shown() -> None:
    shown = {name for page in PAGES for _, name in SHOWN.findall(page.read_text())}
    assert set(script().PICTURES) <= shown


def sentences_of_the_source() -> str:
    """Every string of the library, with an ellipsis for each value that is put in."""
    found = []
    for path in sorted((DOCS.parent / "src/dprounds").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.sub(r"\{\w*\}", "…", node.value))
    return "\n".join(found)


def test_every_message_on_the_page_of_errors_is_one_that_the_library_writes() -> None:
    rows = re.findall(r"^\| (`.*?) \| .* \|$", (DOCS / "guides/errors.md").read_text(), flags=re.MULTILINE)
    quoted = [message for row in rows for message in re.findall(r"`([^`]* [^`]*)`", row)]
    # ranges and values are put in: what stands around them is looked for
    pieces = [
        (message, piece)
        for message in quoted
        for piece in re.split(r"…|,? got .*|(?:must be )?in [\[(].*", message)
        if len(piece.strip()) > 6
    ]
    source = sentences_of_the_source()
    missing = [(message, piece) for message, piece in pieces if piece.strip() not in source]
    assert len(pieces) > 20
    assert missing == []
