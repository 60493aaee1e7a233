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
# What looks at the packages from outside has its own, so that it is not among them.
AUDIT  := .venv-audit
# What is installed, each on top of the one before: to run, to work on it, to compare it with others.
RUNTIME := $(VENV)/.runtime
DEV     := $(VENV)/.dev
DOCS    := $(VENV)/.docs
PEERS   := $(VENV)/.peers

PYTEST := $(BIN)/python -m pytest -m 'not soak' -n 2 --dist loadfile
PROCESSES := tests/system

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install setup run test test-system lint format site coverage client openapi settings bench bench-all bench-matchers bench-relays bench-maps bench-feeds bench-peers \
    bench-durability bench-replicas bench-webhooks bench-connect bench-start bench-js js fuzz soak lock sbom audit image base-image clean java chromium warm

help: ## this list
	@echo 'make <target> [ARGS="..."]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

run: $(RUNTIME) ## install what the service needs, and serve a year of flights on the loopback address
	$(BIN)/rankcast demo $(ARGS)

install: $(RUNTIME) ## install what the service and its demo need into .venv

setup: java js warm ## all that development needs: every package, every kernel, a Java for Spark

$(RUNTIME): requirements/build.lock requirements/runtime.lock requirements/demo.lock pyproject.toml client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'Rankcast needs Python 3.11 or newer. Name one: make $(MAKECMDGOALS) PYTHON=python3.12' >&2; exit 1; }
	@$(INSTALL) runtime
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.lock
	@$(INSTALL) development
	@touch $@

$(DOCS): $(RUNTIME) requirements/docs.lock
	@$(INSTALL) docs
	@touch $@

# A package that has no build for this machine is passed over, with what it measures.
$(PEERS): $(DEV) requirements/peers.lock
	@$(INSTALL) peers && touch $@ || true

$(AUDIT)/.done: requirements/audit.lock
	@$(PYTHON) -m tools.install --venv $(AUDIT) --installer $(INSTALLER) audit
	@touch $@

java: $(DEV)
	@$(BIN)/python -m tools.java --quiet || true # the service runs without

chromium: $(DEV)
	@$(BIN)/python -m tools.chromium --quiet || true # the tests of the console are skipped without

js: client-js/node_modules

# The types of the JavaScript client are checked by TypeScript; without Node that is passed over.
client-js/node_modules: client-js/package.json client-js/package-lock.json
	@if command -v npm > /dev/null; then npm ci --prefix client-js --no-audit --no-fund --loglevel=error && touch $@; \
	    else echo 'no npm: tests of the JavaScript client are skipped'; fi

warm: $(DEV)
	$(BIN)/rankcast warm

test: setup ## all tests but the soak and those that start processes
	$(PYTEST) $(PROCESSES:%=--ignore=%) $(ARGS)

test-system: setup chromium ## tests that start the service as a user does, benchmarks, databases and Spark
	$(PYTEST) $(PROCESSES) $(ARGS)

lint: $(DEV) ## ruff, mypy, import rules, drift of what is generated
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.openapi --check
	$(BIN)/python -m tools.asyncapi --check
	$(BIN)/python -m tools.http_page --check
	$(BIN)/python -m tools.blocking_client --check
	$(BIN)/python -m tools.settings_page --check
	$(BIN)/python -m tools.js_types --check

client: $(DEV) ## write the blocking client from the asynchronous one
	$(BIN)/python -m tools.blocking_client

format: $(DEV) ## let ruff put the sources in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

site: $(DOCS) ## build the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

coverage: setup ## the tests of `make test`, with a report in build/coverage
	$(PYTEST) $(PROCESSES:%=--ignore=%) --cov --cov-report=term:skip-covered --cov-report=html:build/coverage $(ARGS)

openapi: $(DEV) ## write openapi.yaml, asyncapi.yaml, docs/http.md and client-js/api.d.ts from the service
	$(BIN)/python -m tools.openapi
	$(BIN)/python -m tools.asyncapi
	$(BIN)/python -m tools.http_page
	$(BIN)/python -m tools.js_types

settings: $(DEV) ## write docs/settings.md from the settings class
	$(BIN)/python -m tools.settings_page

bench-all: setup ## all resources on one page in less than 15 minutes, written to docs/results
	$(BIN)/rankcast bench all --quick $(ARGS)

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

bench-replicas: setup ## writes with and without replicas, joining and taking over, written to docs/results
	$(BIN)/rankcast bench replicas $(ARGS)

bench-webhooks: setup ## writes with and without receivers of webhooks, written to docs/results
	$(BIN)/rankcast bench webhooks $(ARGS)

bench-connect: setup ## events from brokers into a board, written to docs/results
	$(BIN)/rankcast bench connect $(ARGS)

bench-start: $(RUNTIME) ## what a fresh clone takes to its first list, written to docs/results
	$(BIN)/rankcast bench start $(ARGS)

bench-js: setup ## the JavaScript client in one process of Node, written to docs/results (needs Node 20)
	$(BIN)/rankcast bench js $(ARGS)

fuzz: setup ## fuzz all targets in turn on both cores, for MINUTES=n (1); ARGS="--seed S" does a run again
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),1) $(ARGS)

soak: setup ## the long tests; with HOURS=24 the service in the shape of production instead, from where build/soak is
	$(if $(HOURS),$(BIN)/python -m tests.soak --hours $(HOURS),$(BIN)/python -m pytest -m soak --timeout 0) $(ARGS)

# uv writes the lock files. Extras are kept in them: pip tries the newest version of a package that another one asks for
# with an extra unless the lock pins it with that extra, and then refuses it for having no hash.
LOCK := uv pip compile --quiet --universal --no-strip-extras --fork-strategy fewest --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
PINNED := -c requirements/dev.lock

# All packages together are pinned first, and the other locks take their versions from that.
lock: ## pin all dependencies, newer ones with ARGS=--upgrade (needs uv)
	$(LOCK) pyproject.toml --extra dev --extra demo --extra postgres --extra spark --extra connect -o requirements/dev.lock $(ARGS)
	$(LOCK) requirements/build.in $(PINNED) -o requirements/build.lock $(ARGS)
	$(LOCK) pyproject.toml $(PINNED) -o requirements/runtime.lock
	$(LOCK) requirements/demo.in --no-deps $(PINNED) -o requirements/demo.lock
	$(LOCK) pyproject.toml --extra postgres $(PINNED) -o requirements/postgres.lock
	$(LOCK) pyproject.toml --extra postgres --extra otel $(PINNED) -o requirements/otel.lock
	$(LOCK) pyproject.toml --extra connect $(PINNED) -o requirements/connect.lock
	$(LOCK) pyproject.toml --extra postgres --extra spark $(PINNED) -o requirements/spark.lock
	$(LOCK) pyproject.toml --extra peers $(PINNED) -o requirements/peers.lock $(ARGS)
	$(LOCK) requirements/docs.in $(PINNED) -o requirements/docs.lock $(ARGS)
	$(LOCK) requirements/audit.in $(PINNED) -o requirements/audit.lock $(ARGS)
	@! grep -nE '(https?|file):' requirements/*.lock

sbom: $(AUDIT)/.done ## what the service runs with, as CycloneDX, written to build
	$(AUDIT)/bin/python -m tools.sbom $(ARGS)

audit: $(AUDIT)/.done ## ask for advisories about the locked packages; fails where one is known
	$(AUDIT)/bin/python -m tools.audit $(ARGS)

# BASE names the base image, by digest where it has to be the same one again; make base-image prints it.
BASE ?=

image: ## the container image
	docker build --target service --tag rankcast:latest $(BASE:%=--build-arg BASE=%) .

base-image: ## the base image of the Dockerfile by its digest of today (asks its registry)
	@$(PYTHON) -m tools.base_image $(ARGS)

clean: ## remove the environment, the kernels and all caches
	rm -rf $(VENV) $(AUDIT) client-js/node_modules .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
