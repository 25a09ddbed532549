"""A server of its own for the tests of the page, on a free port of loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the page needs the extra web")
pytest.importorskip("uvicorn", reason="the page needs the extra web")


@dataclass
class Served:
    """A server that runs, and where."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    def workers(self) -> list[int]:
        """Process ids of the workers."""
        pid = self.process.pid
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


Start = Callable[..., Served]


def start(log: Path, arguments: str = "port=0", worker: str = "", before: str = "") -> Served:
    """A server, whose workers run a program of the test's own if there is one; and what it runs before it serves."""
    program = f"{before}\nfrom dprounds.web.server import serve; serve({arguments})"
    if worker:
        program = f"from dprounds.web import pool\npool.WORKER = ('-P', '-c', {worker!r})\n{program}"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "default"},
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+/", line)
    assert found, f"{line!r}; {log.read_text()}"
    return Served(process, found[0], log)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that only ask; whatever they asked, nothing may have crashed in the end."""
    server = start(tmp_path_factory.mktemp("server") / "log", "port=0, workers=2")
    yield server
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Start]:
    """Servers that a test may treat as it likes."""
    started: list[Served] = []

    def begin(arguments: str = "port=0, workers=1", worker: str = "") -> Served:
        started.append(start(tmp_path / f"log-{len(started)}", arguments, worker))
        return started[-1]

    yield begin
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        assert server.process.stdout is not None
        server.process.stdout.close()
