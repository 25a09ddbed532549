"""What is published with a version says the same everywhere: the package, the changelog, the citation, the policy."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import dprounds

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = (ROOT / "CITATION.cff").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
# Addresses of documents that are cited. A policy or a citation names no place that might not exist.
ADDRESS = re.compile(r"https?://|www\.|[\w.+-]+@[\w-]+\.\w+")


def cited(field: str) -> str | None:
    """A field at the top of the citation file."""
    found = re.search(rf'^{field}: *"?(.*?)"?$', CITATION, flags=re.MULTILINE)
    return found[1] if found else None


def test_package_changelog_and_citation_name_one_version() -> None:
    newest = re.search(r"^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$", CHANGELOG, flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == PROJECT["version"] == cited("version")
    # a version has a date when it is released, and then the citation has the same one
    assert cited("date-released") == (None if newest[2] == "unreleased" else newest[2])


def test_the_changelog_lists_changed_numbers_for_every_version() -> None:
    for version in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        assert "### Numbers" in version, version.splitlines()[0]


def test_the_citation_has_what_the_format_requires_and_the_licence_of_the_package() -> None:
    assert cited("cff-version") == "1.2.0"
    assert all(re.search(rf"^{field}:", CITATION, flags=re.MULTILINE) for field in ("message", "title", "authors"))
    assert cited("license") == PROJECT["license"]
    assert (ROOT / PROJECT["license-files"][0]).is_file()


def test_policy_and_citation_name_no_host() -> None:
    for name in ("SECURITY.md", "CITATION.cff"):
        assert ADDRESS.search((ROOT / name).read_text()) is None, name


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(dprounds.__file__).parent / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]
