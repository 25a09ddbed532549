"""What a newcomer gets from a built file: README's examples, run where nothing but the package is installed.

`make dist` calls this with the Python of a new environment, which has neither pytest nor this repository on its path::

    python -I tests/installed.py README.md
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

__all__ = ["FLAGS", "commands", "main"]

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block with what it shows to be printed; a backslash continues a line."""
    for part in ("\n" + block.replace("\\\n", " ")).split("\n$ ")[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown.strip() + "\n" if shown.strip() else ""


def main(page: Path) -> int:
    """The exit code: 0 if the page's examples show what the installed package answers."""
    import dprounds

    place = Path(dprounds.__file__).resolve()
    if not place.is_relative_to(Path(sys.prefix).resolve()):
        print(f"dprounds comes from {place}, which is not the new environment.")
        return 1
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S):
        for command, shown in commands(block):
            tried += 1
            program, *arguments = shlex.split(command)
            done = subprocess.run(
                [Path(sys.executable).with_name(program), *arguments],
                capture_output=True,
                text=True,
                check=False,
                encoding="utf-8",
                env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
            )
            if done.returncode or not doctest.OutputChecker().check_output(shown or "...", done.stdout, FLAGS):
                failed += 1
                print(f"$ {command}\nshown:\n{shown}\nprinted:\n{done.stdout}{done.stderr}")
    print(f"dprounds {distribution('dprounds').version} in {sys.prefix}: {tried} examples, {failed} failed")
    return 1 if failed or tried < 10 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
