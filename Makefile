# Everything a developer or a new user runs. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: bench bench-lab clean demo fuzz help lab-full lint lock run setup soak test wheel

bench: setup ## measure latencies, idle cost and storms; writes build/bench/*.json
	@$(BIN)/python tests/bench/run.py $(ARGS)

bench-lab: setup ## measure bonds in the kernel lab beside other makes; writes build/bench/bonds.json
	@$(BIN)/python tests/bench/run.py bonds $(ARGS)

clean: ## remove what was built here (.venv stays)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

demo: setup ## pull a cable under a training loop, in network namespaces, in under a minute
	@$(BIN)/python tests/demo/run.py

fuzz: setup ## every parser of outside bytes, guided by coverage; ARGS="--seconds 300 cmd/replay"
	@$(BIN)/python tests/fuzz/run.py $(ARGS)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab-full: setup ## kill bond changes after every single operation (an hour); make test takes a sample
	@LINKHOLD_LAB_FULL=1 $(PYTEST) -n 2 --timeout 1000 tests/lab/test_bond_kill_points.py tests/lab/test_bond_faults.py tests/lab/test_bond_apply.py tests/lab/test_handover_facts.py $(ARGS)

lint: setup ## style, types, arrows between the parts, nothing newer than Python 3.10
	@$(BIN)/ruff format --check --quiet agent ansible tests
	@$(BIN)/ruff check --quiet agent ansible tests
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --python-version 3.10 agent
	@$(BIN)/mypy --no-error-summary --python-version 3.14 agent
	@$(BIN)/lint-imports --no-cache >build/imports.log || { cat build/imports.log; exit 1; }
	@$(BIN)/vermin --quiet --target=3.10- --violations --eval-annotations --backport typing_extensions agent tests

run: setup ## run the agent on this host, in the foreground, changing nothing (observe mode)
	@exec $(BIN)/linkhold agent --observe $(ARGS)

setup: ## install what is missing: system packages by apt where allowed, and .venv
	@PYTHON=$(PYTHON) tests/support/setup.sh $(VENV)

wheel: setup ## build the wheel that `linkhold setup --system` installs, into dist/
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

lock: ## pin the dependencies of the service's venv anew, with hashes (needs an index of packages)
	@tests/support/lock.sh

soak: setup ## a simulated day and 30 minutes of real processes under events: nothing may grow
	@nice $(BIN)/python tests/soak/run.py $(ARGS)

test: lint ## run every test, three files at a time; a skip says why
	@$(PYTEST) -n 3 --dist loadfile $(ARGS)
