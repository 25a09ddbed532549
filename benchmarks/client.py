"""The other end of `benchmarks.worker`: a library that is asked, with a time limit, and started again if it dies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import ONE_CORE
from benchmarks.peers import Part

ROOT = Path(__file__).resolve().parent.parent
# Opacus brings PyTorch, which takes long to import on a cold disk.
START_SECONDS = 120.0
# On a machine that others use, a second of the processor may take so many of the clock.
PATIENCE = 8.0


class Client:
    """A library in a process of its own.

    Parameters
    ----------
    name
        A key of `benchmarks.peers.PEERS`.
    limit
        Seconds of the processor after which an answer is no longer waited for.
    """

    def __init__(self, name: str, limit: float) -> None:
        self.name, self.limit = name, limit
        self._process: subprocess.Popen[str] | None = None
        self.start = self._started()

    def _started(self) -> dict[str, Any]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", self.name],
            cwd=ROOT,
            env={**os.environ, **ONE_CORE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        found = self._line(START_SECONDS)
        if found is None:
            self.close()
            raise ImportError(f"{self.name} does not start")
        return found

    def _line(self, seconds: float) -> dict[str, Any] | None:
        """The next line, or None if it does not come in time or the process has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        text = self._process.stdout.readline() if ready else ""
        return dict(json.loads(text)) if text else None

    def ask(
        self, history: Sequence[Part], value: object, *, ask: str = "epsilon", repeat: bool = False
    ) -> dict[str, Any]:
        """The answer: a value, an error, ``not_covered``, ``over`` (the limit) or ``died``."""
        if self._process is None:
            self._started()
        assert self._process is not None
        assert self._process.stdin is not None
        question = {
            "ask": ask,
            "history": [list(part) for part in history],
            "value": value,
            "repeat": repeat,
            "limit": self.limit,
        }
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.close()
            return {"died": True}
        found = self._line(PATIENCE * self.limit + 1.0)
        if found is None:
            process = self._process
            self.close()
            # ended by its timer, or here, just now; else by itself
            return {"over": self.limit} if process.returncode in (-signal.SIGPROF, -signal.SIGKILL) else {"died": True}
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
