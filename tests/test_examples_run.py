"""No example is left out: every file that shows one is collected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHOWS = {".py": (">>> ",), ".md": ("```python\n", "```console\n")}  # pages that need a peer have fences of their own


def test_every_file_that_shows_an_example_is_run() -> None:
    places = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    shown = {
        str(path.relative_to(ROOT))
        for path in places
        if "_build" not in path.parts and any(mark in path.read_text() for mark in SHOWS[path.suffix])
    }
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "src", "docs", "README.md"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=True)
    collected = {line.split("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert shown - collected == set()
