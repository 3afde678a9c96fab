# make demo: install and compare the methods on real data.   make install: what a user needs.
# make test: install the developers' tools too and run the tests.   make check: ruff and mypy.
# A second call reinstalls nothing and needs no network.

BIN := .venv/bin
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

# The first Python that is new enough; choose another with: make PYTHON=/path/to/python3.12
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	if $$p $(NEW_ENOUGH); then echo $$p; break; fi; done)

.PHONY: demo test check install install-dev

demo: install
	@$(BIN)/motet demo

test: install-dev
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: install-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

install: .venv/.installed

install-dev: .venv/.installed-dev

.venv/.installed: pyproject.toml constraints.txt
	@"$(PYTHON)" $(NEW_ENOUGH) || { \
		echo "Motet needs Python 3.11 or newer, but $(or $(PYTHON),every python on the PATH) is older" \
		"or missing: install one, or name it with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || "$(PYTHON)" -m venv --clear .venv
	@$(BIN)/python $(NEW_ENOUGH) || "$(PYTHON)" -m venv --clear .venv
	$(PIP) -e .
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) -e '.[dev]'
	@touch $@
