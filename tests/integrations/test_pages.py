"""The pages whose code needs a training library run where that is installed."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

import pytest

from tests.integrations.opacus_training import marks

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = [*marks, pytest.mark.filterwarnings("ignore")]  # what those libraries deprecate is not ours to fix


def failures(page: str, fences: str) -> int:
    """Examples of a page that do not show what they print, in fences of this kind."""
    found = re.findall(rf"^```{fences}\n(.*?)^```$", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    code = "\n".join(block for block in found if block.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(code, {}, page, None, 0)
    assert len(test.examples) > 5
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    return runner.summarize().failed


def test_the_page_on_trainers_runs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("lightning", reason="Lightning is not installed")
    assert failures("howto/trainers.md", r"\{code-block\} python") == 0


def test_the_recipe_for_lora_runs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("transformers", reason="Transformers is not installed")
        pytest.importorskip("peft", reason="PEFT is not installed")
    assert failures("guides/engineer.md", r"\{code-block\} python") == 0


def test_the_export_for_dp_accounting_runs() -> None:
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    assert failures("guides/researcher.md", r"\{code-block\} python") == 0
