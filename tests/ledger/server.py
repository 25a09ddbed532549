"""A PostgreSQL server of the tests' own: a new cluster in a temporary folder, reached by loopback alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from glob import glob
from pathlib import Path

USER = "postgres"  # a server refuses to run as root


def program(name: str) -> str | None:
    """Where one of PostgreSQL's programs is; Debian keeps them off the path."""
    return shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)


def missing() -> str | None:
    """Why no server can be started here; None if one can."""
    if program("initdb") is None or program("pg_ctl") is None:
        return "PostgreSQL is not installed: install your system's package, such as postgresql of Debian"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed: pip install '.[postgres]'"
    if os.geteuid() == 0:
        import pwd

        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"PostgreSQL does not run as root, and there is no user {USER}"
    return None


class Server:
    """A cluster that can be stopped, killed and started again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dprounds-postgres-"))
        self.as_user: dict[str, str] = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
            self.as_user = {"user": USER, "group": USER}
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.databases = 0
        self._run("initdb", "-D", str(self.data), "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        # without fsync only a loss of power loses entries; with it a recovery waits for whatever is being written
        settings = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -c max_connections=200 -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.folder / "log"), "-o", settings)

    def kill(self) -> None:
        """Stop at once, as after a loss of power: the next start recovers from the log."""
        self._run("pg_ctl", "stop", "-m", "immediate", "-D", str(self.data))

    def close(self) -> None:
        with suppress(AssertionError):  # a test that failed may have left it stopped
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of an empty database."""
        import psycopg

        self.databases += 1
        name = f"ledger_{self.databases}"
        with psycopg.connect(f"host=127.0.0.1 port={self.port} user=tests dbname=postgres", autocommit=True) as one:
            one.execute(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://tests@127.0.0.1:{self.port}/{name}"

    def _run(self, name: str, *arguments: str) -> None:
        path = program(name)
        assert path is not None
        end = time.monotonic() + 300
        with tempfile.TemporaryFile() as said:  # a pipe would stay open as long as the server does
            done = subprocess.run(
                [path, *arguments],
                stdout=said,
                stderr=said,
                cwd=self.folder,
                timeout=end - time.monotonic(),
                check=False,
                **self.as_user,  # type: ignore[call-overload]  # both are names
            )
            said.seek(0)
            assert done.returncode == 0, said.read().decode()
