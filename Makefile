# Every command of the project. `make` alone lists them.

PYTHON ?= python3
# uv or pip; auto takes uv where it is found.
INSTALLER ?= auto
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=

# Modules are compiled when they are first imported, also where the environment says not to keep that.
unexport PYTHONDONTWRITEBYTECODE

INSTALL := $(PYTHON) -m tools.install --venv $(VENV) --installer $(INSTALLER)
# What is installed, each on top of the one before: to run, to work on it, to compare it with others.
RUNTIME := $(VENV)/.runtime
DEV     := $(VENV)/.dev
PEERS   := $(VENV)/.peers

PYTEST := $(BIN)/python -m pytest -m 'not soak' -n 2 --dist loadfile
PROCESSES := tests/system tests/service tests/bench tests/client/test_live.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install setup run test test-system lint format openapi bench bench-matchers bench-relays bench-maps bench-feeds bench-peers \
    bench-durability bench-start soak lock image clean java warm

help: ## this list
	@echo 'make <target> [ARGS="..."]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

run: $(RUNTIME) ## install what the service needs, and serve a year of flights on the loopback address
	$(BIN)/rankcast demo $(ARGS)

install: $(RUNTIME) ## install what the service and its demo need into .venv

setup: java warm ## all that development needs: every package, every kernel, a Java for Spark

$(RUNTIME): requirements/build.lock requirements/runtime.lock requirements/demo.lock pyproject.toml client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'Rankcast needs Python 3.11 or newer. Name one: make $(MAKECMDGOALS) PYTHON=python3.12' >&2; exit 1; }
	@$(INSTALL) runtime
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.lock
	@$(INSTALL) development
	@touch $@

# A package that has no build for this machine is passed over, with what it measures.
$(PEERS): $(DEV) requirements/peers.lock
	@$(INSTALL) peers && touch $@ || true

java: $(DEV)
	@$(BIN)/python -m tools.java --quiet || true # the service runs without

warm: $(DEV)
	$(BIN)/rankcast warm

test: setup ## all tests but the soak and those that start processes
	$(PYTEST) $(PROCESSES:%=--ignore=%) $(ARGS)

test-system: setup ## tests that start the service as a user does, benchmarks, databases and Spark
	$(PYTEST) $(PROCESSES) $(ARGS)

lint: $(DEV) ## ruff, mypy, import rules, drift of openapi.yaml
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.openapi --check

format: $(DEV) ## let ruff put the sources in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: $(DEV) ## write openapi.yaml from the service
	$(BIN)/python -m tools.openapi

bench: setup ## speed on this machine, written to docs/results
	$(BIN)/rankcast bench boards $(ARGS)

bench-matchers: $(PEERS) java warm ## the matchers' speed on this machine, written to docs/results
	$(BIN)/rankcast bench matchers $(ARGS)

bench-relays: $(PEERS) java warm ## the relays' speed on this machine, written to docs/results
	$(BIN)/rankcast bench relays $(ARGS)

bench-maps: $(PEERS) java warm ## the speed of maps' indexes on this machine, written to docs/results
	$(BIN)/rankcast bench maps $(ARGS)

bench-feeds: setup ## the speed of feeds on this machine, written to docs/results
	$(BIN)/rankcast bench feeds $(ARGS)

bench-peers: setup ## boards beside PostgreSQL, Redis and Unicast, written to docs/results
	$(BIN)/rankcast bench peers $(ARGS)

bench-durability: setup ## starts, snapshots and rebuilds on this machine, written to docs/results
	$(BIN)/rankcast bench durability $(ARGS)

bench-start: $(RUNTIME) ## what a fresh clone takes to its first list, written to docs/results
	$(BIN)/rankcast bench start $(ARGS)

soak: setup ## the long tests
	$(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)

# uv writes the lock files.
LOCK := uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
PINNED := -c requirements/dev.lock

# All packages together are pinned first, and the other locks take their versions from that.
lock: ## pin all dependencies, newer ones with ARGS=--upgrade (needs uv)
	$(LOCK) pyproject.toml --extra dev --extra demo --extra postgres --extra spark -o requirements/dev.lock $(ARGS)
	$(LOCK) requirements/build.in $(PINNED) -o requirements/build.lock $(ARGS)
	$(LOCK) pyproject.toml $(PINNED) -o requirements/runtime.lock
	$(LOCK) requirements/demo.in --no-deps $(PINNED) -o requirements/demo.lock
	$(LOCK) pyproject.toml --extra postgres $(PINNED) -o requirements/postgres.lock
	$(LOCK) pyproject.toml --extra postgres --extra spark $(PINNED) -o requirements/spark.lock
	$(LOCK) pyproject.toml --extra peers $(PINNED) -o requirements/peers.lock $(ARGS)
	@! grep -nE '(https?|file):' requirements/*.lock

image: ## the container image
	docker build --target service --tag rankcast:latest .

clean: ## remove the environment, the kernels and all caches
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
