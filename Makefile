# make setup   prepare .venv
# make demo    see Livelog at work
# make test    lint, types, all tests
# make bench   the benchmarks
# make lint, make clean

# The first Python that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test bench lint java clean

setup: $(STAMP)

$(STAMP): setup.cfg pyproject.toml
	@if [ -z "$(PYTHON)" ]; then echo "Livelog needs Python 3.11 or newer; found: $$(python3 --version 2>&1)." \
		"Install one, or say where it is: make PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@[ -x $(BIN)/python ] || { echo "making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); } || { \
		rm -rf $(VENV); echo "could not make $(VENV); on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing Livelog and what it needs (the first time takes a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

demo: setup
	@$(BIN)/livelog demo

test: setup java lint
	$(BIN)/python -m pytest -n 3 --dist loadgroup

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

# Spark needs Java; a machine without it is made ready where that is allowed, and else the tests over Spark are skipped.
java:
	@if command -v java >/dev/null 2>&1; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then as=""; elif sudo -n true 2>/dev/null; then as="sudo -n"; else as="no"; fi; \
	if [ "$$as" = no ] || ! command -v apt-get >/dev/null 2>&1; then \
		echo "note: no Java found and it cannot be installed from here; what runs on Spark needs one (Java 17 or newer)"; \
	else \
		echo "installing a Java runtime for Spark"; \
		{ $$as apt-get update -qq && $$as apt-get install -qq -y default-jre-headless >/dev/null; } \
			|| echo "note: Java could not be installed; what runs on Spark needs one (Java 17 or newer)"; \
	fi

bench: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
