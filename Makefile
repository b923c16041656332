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
COMPILED := $(wildcard operators/compiled/*.pyx operators/compiled/*.pxd)

# What makes a machine ready is done as root or with sudo, where that is allowed without a password: $(call install,packages)
install = if [ "$$(id -u)" = 0 ]; then as=""; else as="sudo -n"; fi; command -v apt-get >/dev/null 2>&1 \
	&& $$as true 2>/dev/null && $$as apt-get update -qq && $$as apt-get install -qq -y $(1) >/dev/null

.PHONY: setup demo test bench lint java compiler clean

setup: $(STAMP)

$(STAMP): setup.cfg setup.py pyproject.toml $(COMPILED) | compiler
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

# Spark needs Java; without one the tests over Spark are skipped.
java:
	@if ! command -v java >/dev/null 2>&1; then \
		echo "installing a Java runtime for Spark"; \
		{ $(call install,default-jre-headless); } \
			|| echo "note: no Java found and it cannot be installed from here; what runs on Spark needs one (Java 17 or newer)"; \
	fi

# Some parts are compiled; without a compiler there is Python that does the same, slower.
compiler:
	@if ! command -v cc >/dev/null 2>&1; then \
		echo "installing a C compiler"; \
		{ $(call install,gcc libc6-dev); } \
			|| echo "note: no C compiler found and it cannot be installed from here; large batches will be slower"; \
	fi

bench: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build dist operators/compiled/*.so *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
