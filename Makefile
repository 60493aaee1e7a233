# Every command of the project. `make` alone lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
KERNELS := $(or $(RANKCAST_CACHE),.cache/kernels)
ARGS   ?=

# Tests start many processes, each of which would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

INSTALLED := $(VENV)/.installed
WARM      := $(KERNELS)/.warm
SOURCES   := $(shell find indexes -name '*.py')

PYTEST := $(BIN)/python -m pytest -m 'not soak' -n 2 --dist loadfile
PROCESSES := tests/system tests/service tests/bench tests/client/test_live.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test test-system lint format openapi bench bench-matchers bench-relays bench-maps bench-feeds bench-peers \
    bench-durability soak lock image clean

help: ## this list
	@echo 'make <target> [ARGS="..."]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

setup: $(INSTALLED) $(WARM) ## make .venv from the lock file, compile the kernels, see to Java
	@$(BIN)/python -m tools.java --quiet || true # the service runs without

$(INSTALLED): requirements/build.lock requirements/dev.lock pyproject.toml client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'Rankcast needs Python 3.11 or newer. Name one: make setup PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo 'This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo 'Installing what is pinned in requirements/. This takes a minute or more and says nothing meanwhile ...'
	$(PIP) install --quiet --require-hashes -r requirements/build.lock
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/dev.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e . -e client
	@touch $@

$(WARM): $(INSTALLED) $(SOURCES)
	$(BIN)/rankcast warm
	@mkdir -p $(@D) && touch $@

run: setup ## serve a year of flights on the loopback address
	$(BIN)/rankcast demo $(ARGS)

test: setup ## all tests but the soak and those that start processes
	$(PYTEST) $(PROCESSES:%=--ignore=%) $(ARGS)

test-system: setup ## tests that start the service as a user does, benchmarks, databases and Spark
	$(PYTEST) $(PROCESSES) $(ARGS)

lint: setup ## ruff, mypy, import rules, drift of openapi.yaml
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.openapi --check

format: setup ## let ruff put the sources in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: setup ## write openapi.yaml from the service
	$(BIN)/python -m tools.openapi

bench: setup ## speed on this machine, written to docs/results
	$(BIN)/rankcast bench boards $(ARGS)

bench-matchers: setup ## the matchers' speed on this machine, written to docs/results
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/peers.lock || true # what is missing is passed over
	$(BIN)/rankcast bench matchers $(ARGS)

bench-relays: setup ## the relays' speed on this machine, written to docs/results
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/peers.lock || true # what is missing is passed over
	$(BIN)/rankcast bench relays $(ARGS)

bench-maps: setup ## the speed of maps' indexes on this machine, written to docs/results
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/peers.lock || true # what is missing is passed over
	$(BIN)/rankcast bench maps $(ARGS)

bench-feeds: setup ## the speed of feeds on this machine, written to docs/results
	$(BIN)/rankcast bench feeds $(ARGS)

bench-peers: setup ## boards beside PostgreSQL, Redis and Unicast, written to docs/results
	$(BIN)/rankcast bench peers $(ARGS)

bench-durability: setup ## starts, snapshots and rebuilds on this machine, written to docs/results
	$(BIN)/rankcast bench durability $(ARGS)

soak: setup ## the long tests
	$(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)

# uv writes the lock files; it is not needed for anything else.
LOCK := uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

lock: ## pin all dependencies anew (needs uv)
	$(LOCK) requirements/build.in -o requirements/build.lock
	$(LOCK) pyproject.toml --extra dev --extra demo --extra postgres --extra spark -o requirements/dev.lock
	$(LOCK) pyproject.toml --extra postgres -c requirements/dev.lock -o requirements/runtime.lock
	$(LOCK) pyproject.toml --extra postgres --extra spark -c requirements/dev.lock -o requirements/spark.lock
	$(LOCK) pyproject.toml --extra peers -c requirements/dev.lock -o requirements/peers.lock
	@! grep -nE '(https?|file):' requirements/*.lock

image: ## the container image
	docker build --target service --tag rankcast:latest .

clean: ## remove the environment, the kernels and all caches
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
