"""Doctests in the source, and the Python and command-line examples of README and docs, run as tests.

``--rest`` leaves out what has passed since `make test` began, and a run that skips tests says what it lacks. What
`tests/slow.txt` lists has the mark ``slow``; ``--list-slow`` brings the list up to date.
"""

import importlib.util
import os
import shlex
import shutil
from collections import defaultdict
from contextlib import redirect_stderr, redirect_stdout
from doctest import OutputChecker
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import settings
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

from dprounds.cli import main
from tests.installed import FLAGS, commands

# Tests share the cores out among processes: a second thread of one would only take time from the others.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# The same examples in every run, and no clock; ``--hypothesis-profile default`` draws others.
settings.register_profile("dprounds", deadline=None, derandomize=True, max_examples=75)
settings.load_profile("dprounds")


def console(example: Example) -> str | None:
    """Why a console block does not show what its commands print, or None: each follows a ``$``, its output below it."""
    for command, shown in commands(example.parsed):
        words = shlex.split(command)
        if words[0] != "dprounds":
            return f"A console block shows commands of dprounds, not {words[0]!r}."
        printed = StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            main(words[1:])
        if shown and not OutputChecker().check_output(shown, printed.getvalue(), FLAGS):
            return f"$ {command}\nshown:\n{shown}\nprinted:\n{printed.getvalue()}"
    return None


# A star is one level, and two are no more than one.
source = Sybil(
    parsers=[DocTestParser(optionflags=FLAGS)],
    patterns=["src/dprounds/*.py", "src/dprounds/*/*.py", "src/dprounds/*/*/*.py"],
)
prose = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=FLAGS), CodeBlockParser("console", console)],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
)
pytest_collect_file = (source + prose).pytest()

SLOW = Path(__file__).parent / "tests/slow.txt"
SLOW_SECONDS = 0.5  # of a test in all, with all its parameters: what `make quick` leaves out
PASSED = "dprounds/passed"  # in pytest's cache: the tests that have passed since `make test` began
PEERS = {
    "dp_accounting": "dp-accounting",
    "opacus": "Opacus",
    "lightning": "Lightning",
    "transformers": "Transformers",
    "jax": "JAX",
    "keras": "Keras",
    "prv_accountant": "prv-accountant",
    "autodp": "autodp",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rest`, for what was skipped before something was installed, and `--list-slow`."""
    parser.addoption("--rest", action="store_true", help="leave out what has passed since `make test` began")
    parser.addoption("--list-slow", action="store_true", help="write tests/slow.txt: what took over half a second")


def pytest_configure(config: pytest.Config) -> None:
    """Remember what passes; where pytest-xdist shares the tests out, only in the process that hears of them all."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Heard(config))


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody asks
def pytest_xdist_auto_num_workers() -> int:
    """One more process than cores: at any time some test waits for a browser, a server or a database."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow, and leave out what has passed if that is asked for."""
    slow = frozenset(SLOW.read_text().split())
    for item in items:
        if function(item.nodeid) in slow or item.nodeid.split("/test_")[0] in slow:
            item.add_marker(pytest.mark.slow)
    if config.getoption("--rest"):
        passed = set(remembered(config))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]


def remembered(config: pytest.Config) -> list[str]:
    """The tests that have passed since `make test` began."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    return list(cache.get(PASSED, [])) if cache else []


def function(nodeid: str) -> str:
    """The test, without its parameters."""
    return nodeid.partition("[")[0]


class Heard:
    """Keeps which tests pass and how long they take, and says at the end what the skipped ones lack."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.names, self.seconds = config, set[str](), defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember one that passed, and its time."""
        self.seconds[function(report.nodeid)] += report.duration
        if report.when == "call" and report.passed:
            self.names.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write them where the next run finds them."""
        if self.config.getoption("--list-slow"):
            # folders are listed by hand, and what did not run stays as it was
            kept = [line for line in SLOW.read_text().split() if line not in self.seconds]
            slow = [name for name, seconds in self.seconds.items() if seconds > SLOW_SECONDS]
            listed = sorted([*kept, *(name for name in slow if name.split("/test_")[0] not in kept)])
            SLOW.write_text("\n".join(listed) + "\n")
        cache: pytest.Cache | None = getattr(self.config, "cache", None)  # there is none under `-p no:cacheprovider`
        if cache and not self.config.option.collectonly:
            cache.set(PASSED, sorted(self.names.union(remembered(self.config))))

    def pytest_unconfigure(self) -> None:
        """Say in the last line what is not installed, if anything was skipped."""
        terminal: pytest.TerminalReporter | None = self.config.pluginmanager.get_plugin("terminalreporter")
        lacking = not_installed()
        if terminal and lacking and terminal.stats.get("skipped"):
            terminal.write_line(
                f"{len(terminal.stats['skipped'])} skipped. Not installed: {'; '.join(lacking)}. "
                "Once they are, `make rest` runs what was skipped."
            )


def not_installed() -> list[str]:
    """What tests are skipped without, and how to get it."""
    peers = [title for name, title in PEERS.items() if importlib.util.find_spec(name) is None]
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    server = shutil.which("initdb") or any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return [
        *([f"{', '.join(peers)} (`make peers`)"] if peers else []),
        *([] if browser else ["Chromium (by your system's packages, or name one in CHROMIUM)"]),
        *([] if server else ["PostgreSQL (by your system's packages)"]),
    ]
