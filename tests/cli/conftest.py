"""A command in this process, as the shell would see it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dprounds.cli import main


@pytest.fixture
def dprounds(capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str, str]]:
    """Exit code, output and complaints of a line that was typed after ``dprounds``."""

    def run(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(line.split())
        out, err = capsys.readouterr()
        return code, out, err

    return run
