"""The page on any framework runs with the real JAX and Keras."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/howto/any-framework.md"


@pytest.mark.filterwarnings("ignore")  # what JAX and Keras deprecate is not ours to fix
def test_the_page_on_any_framework_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")  # Keras reads it when it is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("jax", reason="JAX is not installed")
        pytest.importorskip("keras", reason="Keras is not installed")
    blocks = re.findall(r"^```(?:python|\{code-block\} python)\n(.*?)^```$", PAGE.read_text(), flags=re.S | re.M)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, None, 0)
    assert len(test.examples) > 30
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize().failed == 0
