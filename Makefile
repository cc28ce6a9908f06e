# Everything this project does is a target here. `make help` lists them; nothing is installed by hand.

PYTHON = $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell \
    $(p) -c 'import sys, venv, ensurepip; print("$(p)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
ARGS ?=
SEEDS ?= 1000
ROUNDS ?= 200

.DEFAULT_GOAL := help
.PHONY: help run compiled pipeline test test-compiled test-pipeline cover sim sim-storage crash damage chaos abuse check format docs demo story screenshots oracle bench profile mutate clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Made again only when what is to be installed changes.
$(VENV)/runtime: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer with venv found: install python3.11 and python3-venv (tried python3, python3.13, python3.12, python3.11)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/dev: $(VENV)/runtime
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

# Spark is 840 MB: only what needs it brings it.
$(VENV)/pipeline: $(VENV)/dev
	$(PIP_INSTALL) --editable '.[dev,pipeline]'
	@touch $@

# Everything that is imported comes from there first, in child processes as well.
COMPILED_DIR := build/compiled
WITH_COMPILED := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(COMPILED_DIR):$(CURDIR):$(CURDIR)/pipeline:$(CURDIR)/protocol

$(VENV)/compiler: $(VENV)/runtime
	$(PIP_INSTALL) --editable '.[compiler]'
	@touch $@

# Built from an archive of the sources: the compiler leaves its files beside what it compiles.
$(COMPILED_DIR)/made: $(VENV)/compiler $(shell find coordinator_server protocol -name '*.py')
	@$(BIN)/python -m tools.c_compiler
	@echo "compiling, about three minutes ..."
	@rm -rf $(COMPILED_DIR) build/sdist
	@$(BIN)/python -m hatchling build --target sdist --directory build/sdist >/dev/null
	HATCH_BUILD_HOOKS_ENABLE=true $(PIP_INSTALL) --no-deps --no-build-isolation --target $(COMPILED_DIR) build/sdist/*.tar.gz
	@touch $@

compiled: $(COMPILED_DIR)/made ## compile the server to C (gcc, Python.h), for `make run COMPILED=1`

ifdef COMPILED
run: $(COMPILED_DIR)/made
	@exec env $(WITH_COMPILED) $(BIN)/python -m coordinator_server run $(ARGS)
else
run: $(VENV)/runtime ## serve on 127.0.0.1:9092, data in ./data; ARGS="--dev" and so on
	@exec $(BIN)/python -m coordinator_server run $(ARGS)
endif

test: $(VENV)/dev ## run the tests; ARGS="-k name" and so on
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

# Real servers and clients, and what replaces nothing of the server. Simulated worlds replace its runtime, so they
# have the core compiled alone.
COMPILED_TESTS := tests/unit/protocol tests/unit/group tests/storage tests/crash tests/testing tests/workers tests/clients
test-compiled: $(VENV)/dev $(COMPILED_DIR)/made ## run tests and the oracle against the compiled server
	$(WITH_COMPILED) COORDINATOR_COMPILED=1 $(BIN)/python -m pytest -n 2 --dist loadgroup -o pythonpath= \
		-m "not interpreted" --ignore=tests/storage/test_journal_beside_kafka.py $(or $(ARGS),$(COMPILED_TESTS))
	$(WITH_COMPILED) $(BIN)/python -m tools.check_oracle
	rm -rf build/compiled-core && cp -r $(COMPILED_DIR) build/compiled-core
	find build/compiled-core/coordinator_server -name '*.so' ! -path '*/group/*' -delete
	PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/compiled-core:$(CURDIR):$(CURDIR)/pipeline:$(CURDIR)/protocol $(BIN)/python -m tests.simulation --seeds 200

pipeline: $(VENV)/pipeline ## tables and a report of a story that real clients play
	$(BIN)/python -m tools.pipeline_demo $(ARGS)

test-pipeline: $(VENV)/pipeline ## run the tests of the pipeline, with Spark
	$(BIN)/python -m pytest tests/pipeline $(ARGS)

cover: $(VENV)/dev ## every branch of the pure core is covered by its own tests
	$(BIN)/python -m coverage run --branch --source=coordinator_server.group -m pytest -q tests/unit/group
	$(BIN)/python -m coverage report --fail-under=100 --show-missing --skip-covered

sim: $(VENV)/dev ## simulate SEEDS worlds; a failing one prints its story and how to repeat it
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

sim-storage: $(VENV)/dev ## simulate the storage: threads, failing disks, power loss, SEEDS times
	$(BIN)/python -m tests.simulation.storage --seeds $(SEEDS)

crash: $(VENV)/dev ## kill a server under load ROUNDS times, and look whether anything is lost
	$(BIN)/python -m tests.crash --rounds $(ROUNDS)

damage: $(VENV)/dev ## start a server on 2,000 damaged data directories, and look whether it says so
	$(BIN)/python -m tests.damage $(ARGS)

abuse: $(VENV)/dev ## attack a server with load, and measure what other members notice; ARGS="--attack NAME"
	$(BIN)/python -m tests.abuse $(ARGS)

chaos: $(VENV)/dev ## raise exceptions at every point of a server under load; ARGS="--points REGEX"
	$(BIN)/python -m tests.chaos $(ARGS)
	$(BIN)/python -m tests.chaos.workers

check: $(VENV)/dev ## format, lint, types, import rules, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.generate_messages --check
	$(BIN)/python -m tools.generate_docs --check

format: $(VENV)/dev ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/dev ## print the generated pages of docs/ again
	$(BIN)/python -m tools.generate_docs

demo: $(VENV)/dev ## watch a group rebalance, and why
	$(BIN)/python -m tools.demo

story: $(VENV)/dev ## hold what is said of rebalances against what real clients did
	$(BIN)/python -m tests.clients.story

screenshots: $(VENV)/dev ## take the pictures in docs/screenshots with Chromium
	$(BIN)/python -m tools.screenshots

oracle: $(VENV)/dev ## compare with what Kafka 4.1.1 answers
	cd tests/oracle && $(CURDIR)/$(BIN)/python -m unittest discover tests
	$(BIN)/python -m tools.check_oracle

bench: $(VENV)/dev ## measure beside Kafka and kfake (Go, Java, Maven), compiled too (gcc); ARGS=--quick
	@$(BIN)/python -m tools.c_compiler && $(MAKE) compiled || echo "measuring without the compiled server" >&2
	$(BIN)/python -m benchmarks.micro --quiet
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.tails
	@test ! -e $(COMPILED_DIR)/made || $(BIN)/python -m benchmarks.tails --compiled
	$(BIN)/python -m benchmarks.side_by_side $(ARGS)

profile: $(VENV)/dev ## see where a busy server's time goes (py-spy, Go); ARGS=Heartbeat
	$(BIN)/python -m benchmarks.profiling $(ARGS)

mutate: $(VENV)/dev ## see which wrong changes to the state machine no test notices; ARGS="--all"
	$(BIN)/python -m tools.mutate $(ARGS)

clean: ## remove the environment and all caches; data stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
