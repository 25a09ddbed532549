# The verbs that people and CI share. Each sets up what it needs in a local .venv; only Python 3.11+ and make are assumed.
PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
RUN = $(VENV)/bin/python

.PHONY: demo quick test rest check mutants docs dist bench peers clean

demo: $(VENV)/.ready           ## answer the question, draw the pictures
	$(RUN) examples/demo.py

quick: $(VENV)/.ready          ## style, and the tests that take no time: under a minute
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pytest -q -n auto --dist worksteal -m "not slow" --ignore tests/web --ignore tests/peers tests

# Examples stay with their page, since those of a page go on from each other. The tests run even where an example fails.
test: $(VENV)/.ready           ## all tests, doctests and documentation examples
	@rm -f .pytest_cache/v/dprounds/passed
	$(RUN) -m pytest -n auto --dist loadfile src docs README.md; examples=$$?; \
	$(RUN) -m pytest -n auto --dist worksteal tests && exit $$examples

rest: $(VENV)/.ready           ## what `make test` skipped: after `make peers`, or with a browser
	$(RUN) -m pytest -n auto --dist worksteal --rest tests

check: $(VENV)/.types          ## style and types, by two checkers
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pyright

mutants: $(VENV)/.ready        ## what carries the proof, set to zero one by one: a test must fail for each
	$(RUN) -m tests.mutants

docs: $(VENV)/.docs            ## HTML documentation in docs/_build; warnings are errors
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

dist: $(VENV)/.build            ## wheel and source in dist/, each installed from its file in a new environment
	rm -rf dist
	$(RUN) -m build --no-isolation --quiet --outdir dist .
	rm -rf $(VENV)/new && $(PYTHON) -m venv $(VENV)/new
	$(VENV)/new/bin/python -m pip install --quiet dist/dprounds-*.whl
	$(VENV)/new/bin/python -I tests/installed.py README.md
	$(VENV)/new/bin/python -m pip install --quiet --force-reinstall --no-deps dist/dprounds-*.tar.gz
	$(VENV)/new/bin/python -I tests/installed.py README.md
	rm -rf $(VENV)/new

bench: $(BENCH_VENV)/.ready    ## speed and tightness beside the peers; writes docs/comparison.md
	$(BENCH_VENV)/bin/python -m benchmarks

peers: $(VENV)/.peers          ## the peers beside us in .venv, for the tests that compare with them
	@echo "installed: dp-accounting, Opacus, Lightning, Transformers, JAX, Keras, prv-accountant, autodp; 'make rest' runs what 'make test' skipped without them"

clean:
	rm -rf $(VENV) $(BENCH_VENV) docs/_build build dist figures

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(RUN) -m pip install --quiet --editable '.[dev,docs]'
	touch $@

$(VENV)/.types: $(VENV)/.ready
	$(RUN) -m pip install --quiet --editable '.[dev,types]'
	touch $@

$(VENV)/.build: $(VENV)/.ready
	$(RUN) -m pip install --quiet --editable '.[dev,build]'
	touch $@

$(VENV)/.peers: $(VENV)/.ready
	$(RUN) -m pip install --quiet --editable '.[peers]'
	touch $@

$(BENCH_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --editable '.[peers]'
	touch $@
