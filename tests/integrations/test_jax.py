"""The page on any framework runs with the real JAX and Keras, in a process of its own: JAX objects to later forks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/howto/any-framework.md"
RUN_PAGE = r"""
import doctest, re, sys
from pathlib import Path
page = Path(sys.argv[1]).read_text()
blocks = re.findall(r"^```(?:python|\{code-block\} python)\n(.*?)^```$", page, flags=re.S | re.M)
test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, sys.argv[1], None, 0)
runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
runner.run(test)
print(*runner.summarize())
"""


def test_the_page_on_any_framework_runs() -> None:
    for name in ("jax", "keras"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", RUN_PAGE, str(PAGE)],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "jax"},  # which Keras reads when it is imported
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    failed, attempted = map(int, done.stdout.split()[-2:])
    assert failed == 0, done.stdout
    assert attempted > 30
