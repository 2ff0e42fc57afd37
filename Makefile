# Everything happens in .venv, in this checkout. `make help` lists the targets.
PYTHON ?= python3
PYTHON311 ?= python3.11
PYTHON310 ?= python3.10
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
LOWEST := .venv-lowest
LOWEST_STAMP := $(LOWEST)/.setup-done
MODEL := smollm2-135m

.DEFAULT_GOAL := help
.PHONY: help setup demo test explore test-lowest lint types format constraints clean pull-if-reachable

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(STAMP) ## make .venv and install Skipstone with every tool, all pinned

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "Skipstone needs Python 3.10 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "== environment in $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "== build tools"
	$(BIN)/python -m pip install -c constraints.txt pip hatchling editables
	@echo "== Skipstone and its tools (torch is large: this can take minutes)"
	$(BIN)/python -m pip install -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

demo: setup ## fetch a small real model, then generate with it side by side
	$(BIN)/skipstone pull $(MODEL)
	$(BIN)/skipstone demo

test: setup pull-if-reachable lint types ## everything that CI checks
	@echo "== tests"
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile # two processes of one thread each: tiny models leave a second idle

explore: setup ## the property tests with new random examples, four times as many (about 15 minutes)
	$(BIN)/pytest --hypothesis-profile=explore tests

test-lowest: $(LOWEST_STAMP) ## what CI checks with the oldest transformers we serve, in .venv-lowest
	$(LOWEST)/bin/pytest -W ignore::DeprecationWarning tests/hf tests/laws tests/text $(NOT_LOWEST)

# of transformers 4 itself: its GGUF tokenizers drop a leading space; it asks the hub about adapters in local folders
NOT_LOWEST = --deselect "tests/hf/test_convert.py::test_text_survives_the_round_trip[  two  ]" \
  --deselect tests/hf/test_load_adapters.py::test_a_model_folder_that_brings_an_adapter_is_loaded_with_it

$(LOWEST_STAMP): pyproject.toml constraints-lowest.txt
	@$(LOWEST)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install -c constraints-lowest.txt pip hatchling editables
	$(LOWEST)/bin/python -m pip install -c constraints-lowest.txt --no-build-isolation -e '.[dev]'
	@touch $@

pull-if-reachable: setup
	@echo "== real model for the tests ($(MODEL))"
	@$(BIN)/skipstone pull $(MODEL) || \
	  echo "== no real model: the tests that need it will be skipped (see the message above)"

lint: setup ## style, formatting and the direction of imports
	@echo "== lint"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: setup ## strict static types
	@echo "== types"
	$(BIN)/mypy

format: setup ## fix what ruff can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

constraints: ## pin the newest versions again (needs Python 3.11 and 3.10)
	$(PYTHON311) scripts/constraints.py --python $(PYTHON311) --python310 $(PYTHON310)

clean: ## remove what these targets made
	rm -rf $(VENV) $(LOWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
