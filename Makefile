# Two commands: `make up` runs the story, `make test` proves it. Everything stays inside the checkout.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.locked

.PHONY: up test test-lab check bench docs setup lock clean

up: setup
	@$(BIN)/podrail up --once

test: setup
	@$(BIN)/python -m pytest -n auto -m "not lab"

# One boot serves all; -n would boot a lab per worker.
test-lab: setup
	@$(BIN)/python -m pytest -m lab tests/lab

check: setup
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/ruff format --check src tests benchmarks tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.docs --check

docs: setup
	@$(BIN)/python -m tools.docs

bench: setup
	@$(BIN)/python -m benchmarks

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "podrail needs Python 3.11 or newer, found $$($(PYTHON) -V 2>&1): make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "this Python has no venv module; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "setting up $(VENV) (once, about half a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Rewrites the lock from pyproject.toml: names, versions and hashes, no addresses.
lock:
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install -q pip-tools
	$(VENV)-lock/bin/pip-compile --quiet --extra dev --generate-hashes --allow-unsafe --strip-extras --upgrade \
	  --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-annotate \
	  --output-file requirements.lock pyproject.toml
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
