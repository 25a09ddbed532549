# The verbs that people and CI share. Each sets up what it needs in a local .venv; only Python 3.11+ and make are assumed.
PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
RUN = $(VENV)/bin/python

.PHONY: demo test check docs bench peers clean

demo: $(VENV)/.ready           ## answer the question, draw the pictures
	$(RUN) examples/demo.py

test: $(VENV)/.ready           ## all tests, doctests and documentation examples
	$(RUN) -m pytest -n auto tests
	$(RUN) -m pytest src docs README.md   # in one process, since the examples of a page go on from each other

check: $(VENV)/.ready          ## style and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

docs: $(VENV)/.docs            ## HTML documentation in docs/_build; warnings are errors
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(BENCH_VENV)/.ready    ## speed and tightness beside the peers; writes docs/comparison.md
	$(BENCH_VENV)/bin/python -m benchmarks

peers: $(VENV)/.peers          ## the peers beside us in .venv, for the tests that compare with them
	@echo "installed: dp-accounting, Opacus, prv-accountant, autodp"

clean:
	rm -rf $(VENV) $(BENCH_VENV) docs/_build build dist figures

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(RUN) -m pip install --quiet --editable '.[dev,docs]'
	touch $@

$(VENV)/.peers: $(VENV)/.ready
	$(RUN) -m pip install --quiet --editable '.[peers]'
	touch $@

$(BENCH_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --editable '.[peers]'
	touch $@
