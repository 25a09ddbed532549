"""The verbs of the Makefile in the order in which a newcomer and CI call them, and what a run of the tests says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_ci_goes_the_newcomers_way_before_it_installs_anything_else() -> None:
    script = (ROOT / ".ci/run").read_text()
    called = re.findall(r"^ *(?:make (\w+)|.*\b(apt-get) install)", script, flags=re.MULTILINE)
    order = [verb or tool for verb, tool in called]
    assert order == ["demo", "test", "check", "docs", "dist", "peers", "apt-get", "rest"]
    assert "mktemp" in script.split("make demo")[0]  # a virtual environment that nobody has used


def test_readme_names_only_verbs_that_there_are() -> None:
    there = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = re.findall(r"\bmake (\w+)", (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text())
    assert {"demo", "test", "quick", "peers", "rest"} <= set(named) <= set(there)


def test_extras_are_installed_from_a_checkout_while_the_package_is_on_no_index() -> None:
    for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.*"), *ROOT.glob("examples/*.py")]:
        if path.suffix in {".md", ".py", ".js", ".html"} and "_build" not in path.parts:
            assert not re.search(r"pip install ['\"]?dprounds", path.read_text()), path


def make_test(tmp_path: Path, *codes: int) -> tuple[int, list[str]]:
    """What `make test` does where Python ends with these codes, one after the other: its own code, and what it ran."""
    python, ready = tmp_path / "venv/bin/python", tmp_path / "venv/.ready"
    python.parent.mkdir(parents=True)
    log = tmp_path / "log"
    log.write_text("")
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {log}\nset -- {" ".join(map(str, codes))}\nshift $(($(wc -l < {log}) - 1))\nexit $1\n'
    )
    python.chmod(0o755)
    ready.touch()
    done = subprocess.run(
        [
            "make",
            "--always-make",
            "--assume-old",
            str(ready),
            f"VENV={tmp_path / 'venv'}",
            "-C",
            str(tmp_path),
            "-f",
            str(ROOT / "Makefile"),
            "test",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, log.read_text().splitlines()


@pytest.mark.parametrize(("codes", "passes"), [((0, 0), True), ((1, 0), False), ((0, 1), False), ((1, 1), False)])
def test_all_tests_run_whichever_fail_and_any_failure_counts(
    codes: tuple[int, int], passes: bool, tmp_path: Path
) -> None:
    code, ran = make_test(tmp_path, *codes)
    assert (code == 0) == passes
    assert [line.split()[-1] for line in ran] == ["README.md", "tests"]


def run_pytest(*arguments: str, path: str = "") -> str:
    environment = {"PATH": path, "HOME": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False, env=environment
    ).stdout


def test_the_rest_is_what_has_not_passed_and_the_last_line_says_what_is_lacking(tmp_path: Path) -> None:
    cache = ("-o", f"cache_dir={tmp_path}")
    few = ("tests/web/test_browser.py", "tests/test_house.py")
    first = run_pytest(*cache, *few)
    assert "Chromium (by your system's packages, or name one in CHROMIUM)" in first.splitlines()[-1]
    assert "`make rest` runs what was skipped" in first.splitlines()[-1]
    passed = re.search(r"(\d+) passed, (\d+) skipped", first)
    assert passed is not None
    rest = re.search(r"(\d+) skipped, (\d+) deselected", run_pytest(*cache, "--rest", *few))
    assert rest is not None
    assert rest.groups() == passed.groups()[::-1]


def test_what_is_listed_as_slow_exists() -> None:
    for line in (ROOT / "tests/slow.txt").read_text().split():
        path, _, name = line.partition("::")
        assert (ROOT / path).exists(), line
        assert not name or f"def {name}(" in (ROOT / path).read_text(), line
