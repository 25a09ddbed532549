"""What the training demonstrations share: a file of measurements, and the parts of a page that are made from it."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = TypeVar("Row")  # a dataclass of texts, integers and floats


def write_csv(path: Path, rows: Sequence[Any], facts: Mapping[str, str], formats: Mapping[str, str]) -> None:
    """The measurements as CSV, under a head of ``# key: value`` lines; `formats` says how columns are rounded."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {key}: {value}\n" for key, value in facts.items())
        writer = csv.writer(file, lineterminator="\n")
        names = [field.name for field in fields(rows[0])]
        writer.writerow(names)
        writer.writerows([format(getattr(row, name), formats.get(name, "")) for name in names] for row in rows)


def read_csv(path: Path, kind: type[Row]) -> tuple[list[Row], dict[str, str]]:
    """The measurements and the head that `write_csv` wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    facts = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    kinds: dict[str, Any] = {"str": str, "int": int, "float": float}
    columns: Any = fields(kind)  # type: ignore[arg-type]  # a type variable cannot say that it is a dataclass
    found = [
        kind(**{field.name: kinds[field.type](row[field.name]) for field in columns})
        for row in csv.DictReader(line for line in lines if not line.startswith("#"))
    ]
    return found, facts


def setting(facts: Mapping[str, str]) -> str:
    """The page's list of what the measurements were made with."""
    return "\n".join(f"- {key}: {value}" for key, value in facts.items())


def save(figure: Figure, path: Path) -> None:
    """The figure as a file; the same measurements give the same bytes."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra, loaded on use)

    # letters stay letters, the ids inside do not change from run to run, and no date is written
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dprounds"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def between(name: str, page: str) -> tuple[str, str, str]:
    """The page before, inside and after a generated part, the marks around it with what is outside."""
    mark = rf"<!-- {{}}{re.escape(name)}: written by [^ ]+ -->"
    found = re.fullmatch(rf"(.*{mark.format('')})(.*)({mark.format('end of ')}.*)", page, flags=re.DOTALL)
    if found is None:
        raise ValueError(f"The page has no part {name!r}.")
    return found[1], found[2].strip(), found[3]


def rewrite(page: Path, contents: Mapping[str, str]) -> None:
    """Put each content into the part of the page that has its name."""
    text = page.read_text(encoding="utf-8")
    for name, content in contents.items():
        before, _, after = between(name, text)
        text = f"{before}\n\n{content}\n\n{after}"
    page.write_text(text, encoding="utf-8")
