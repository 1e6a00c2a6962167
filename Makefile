# Everything runs in the project's own environment, .venv, which the first target that needs it creates.
# Another interpreter that has the dependencies can be named instead: make test PY=/path/to/python

PYTHON ?= python3
VENV   ?= .venv
STAMP  := $(VENV)/.ready
DOCS   := $(VENV)/.docs
JOBS   ?= 2
# each worker begins with a half and then takes from the other: what a module sets up is mostly set up once
SPREAD := -n $(JOBS) --dist worksteal

ifeq ($(origin PY),command line)
READY :=
DOCS  :=
else
PY    := $(VENV)/bin/python
READY := $(STAMP)
endif

.DEFAULT_GOAL := help
.PHONY: help venv demo lint test test-all api docs bench clean

help:  ## list these targets
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY)  ## create .venv and install Bireme with its development tools

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Bireme needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Bireme and its tools into $(VENV) ..."
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.docs: $(STAMP)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

demo: $(READY)  ## train a small network on real images, interrupt it, go on, and see what it reads
	@PYTHONPATH=. $(PY) examples/demo.py

lint: $(READY)  ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

test: lint  ## lint, then the default test suite
	$(PY) -m pytest $(SPREAD) --durations=10

test-all: lint  ## lint, then every test, the long sweeps included
	$(PY) -m pytest $(SPREAD) --durations=25 --full -o faulthandler_timeout=1800

api: $(READY)  ## list the operators where they stand, rewrite stubs and API snapshot, show what changed, compare with Paddle's signatures
	@$(PY) -m tools.exports
	@$(PY) -m tools.stubs
	@$(PY) -m tools.api_snapshot
	@$(PY) -m tools.absent
	@$(PY) -m tools.api_compare

docs: $(READY) $(DOCS)  ## build the site into docs/_build/html: pages, pictures of real runs, API reference
	@PYTHONPATH=. $(PY) -m tools.api_pages
	@PYTHONPATH=. $(PY) docs/pictures.py
	@PYTHONPATH=. $(PY) -m sphinx --fail-on-warning --keep-going --quiet -j auto -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(READY)  ## measure against other frameworks, all in one run
	@$(PY) -m benchmarks

clean:  ## remove .venv and everything that tools left behind
	rm -rf $(VENV) build dist demo_output docs/_build docs/_generated docs/api .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
