# One target a thing people do. `make` alone lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
STACK ?= dev
BIN := .venv/bin
INSTALLED := .venv/installed
PYTEST := $(BIN)/python -m pytest

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Triplane needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Say which: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --retries 10 -c requirements.lock -e '.[dev]'
	@touch $@

install: $(INSTALLED) ## virtual environment .venv with everything at the versions of the lock

preview: $(INSTALLED) ## what the stack STACK (dev) would deploy: no CLI, cluster or account needed
	$(BIN)/triplane preview $(STACK)

test: $(INSTALLED) ## all tests that need no Go
	$(PYTEST) -m "not engine" --ignore=tests/performance

engine: $(INSTALLED) ## build the real Pulumi engine and a Kubernetes API server, once
	$(BIN)/python -m tools.engine build

test-engine: engine ## tests on the real engine and API server
	$(PYTEST) -m engine tests/engine

bench: $(INSTALLED) ## measure the speeds of docs/performance.md
	$(PYTEST) tests/performance

docs: $(INSTALLED) ## write the rules' pages and the schemas anew, from the code
	$(BIN)/python -m triplane.settings.schema
	$(BIN)/python -m triplane.reporting.generated_docs

check: $(INSTALLED) ## everything a change must pass: lint, format, types, docs, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m triplane.reporting.generated_docs --check
	$(MAKE) test

golden: $(INSTALLED) ## write the golden files anew; read the diff before you commit it
	$(PYTEST) tests/golden --update-golden

lock: $(INSTALLED) ## resolve requirements.lock anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --no-header --no-annotate --upgrade -o requirements.lock

.PHONY: help install preview test engine test-engine bench docs check golden lock
