"""Doctests in the source, and the Python examples of README and docs, run as tests."""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

flags = ELLIPSIS | NORMALIZE_WHITESPACE
source = Sybil(parsers=[DocTestParser(optionflags=flags)], patterns=["src/**/*.py"])
prose = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=flags)], patterns=["README.md", "docs/**/*.md"])
pytest_collect_file = (source + prose).pytest()
