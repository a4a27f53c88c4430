# One door for every command. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# What the environment holds: the packages that running needs, and with them the tools of development.
RUNS    = $(VENV)/.ready-run
DEV     = $(VENV)/.ready-dev

.PHONY: help setup run test check fmt lock bench bench-peers ui-test sim prove unit contract integration acceptance clean
.DEFAULT_GOAL := help

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(DEV) ## make .venv and install everything, the tools of development too

$(RUNS): setup.cfg pyproject.toml constraints.txt
	$(call install,.[embedded],which takes a quarter of a minute)
	@touch $(RUNS)

$(DEV): setup.cfg pyproject.toml constraints.txt
	$(call install,.[embedded$(comma)dev],which takes about a minute)
	@touch $(RUNS) $(DEV)

comma := ,
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python has no ensurepip or venv: install its venv package (Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), $(2)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '$(1)'
endef

run: $(RUNS) ## start everything on this machine: servers, frontend, agent
	@$(BIN)/localai up $(ARGS)

test: unit contract integration acceptance ## every tier of tests

# Files side by side: tests of real processes wait more than they work, so three keep two cores busy; unit tests work, and
# each process imports everything first. JOBS=0 runs one after the other.
SIDE_BY_SIDE = 3
unit: SIDE_BY_SIDE = 2
PYTEST = $(BIN)/python -m pytest -q -n $(or $(JOBS),$(SIDE_BY_SIDE)) --dist loadfile

unit contract integration acceptance: setup
	$(PYTEST) tests/$@ -m $@

ui-test: setup ## the pages in a real browser: a Chromium on the path
	$(PYTEST) tests/ui -m ui

bench: setup ## speed and memory, as ratios measured side by side
	$(BIN)/python -m tests.bench $(ARGS)

bench-peers: setup ## the warm path beside LiteLLM's proxy, which is installed into build/peers
	@test -x build/peers/bin/litellm || { $(PYTHON) -m venv build/peers && build/peers/bin/python -m pip install --quiet 'litellm[proxy]'; }
	$(BIN)/python -m tests.bench --only peers --out build/bench-peers.json $(ARGS)

sim: setup ## the engine's steps in virtual time: SEEDS=5000 MINUTES=3 FIRST=0
	$(BIN)/python -m pytest -q -n $(or $(JOBS),2) tests/simulator -m simulator
	$(BIN)/python -m tests.simulator.run --seeds $(or $(SEEDS),5000) --minutes $(or $(MINUTES),3) --first $(or $(FIRST),0)

prove: setup ## the long runs on real processes, 1.8 h: ARGS="--size short", ARGS="--only loads --seed 7"
	$(if $(ARGS),,$(BIN)/python -m pytest -q tests/acceptance -m long)
	$(BIN)/python -m tests.prove $(ARGS)

check: setup ## format, lint, types, imports, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m protos.generate --check
	$(BIN)/python -m localai.settings --check docs/reference/settings.md
	$(BIN)/python -m web.errors --check docs/reference/errors.md
	$(BIN)/python -m web.limits --check docs/reference/limits.md
	$(BIN)/python -m localai.cli.reference --check docs/reference/cli.md
	$(BIN)/python -m localai.metrics --check docs/reference/metrics.md
	$(BIN)/python -m tests.acceptance.crash_table --check docs/reference/crash-points.md
	$(BIN)/python -m tests.unit.loads.eta_calibration --check docs/reference/eta.md

fmt: setup ## format the code and refresh generated pages
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m localai.settings --write docs/reference/settings.md
	$(BIN)/python -m web.errors --write docs/reference/errors.md
	$(BIN)/python -m web.limits --write docs/reference/limits.md
	$(BIN)/python -m localai.cli.reference --write docs/reference/cli.md
	$(BIN)/python -m localai.metrics --write docs/reference/metrics.md
	$(BIN)/python -m tests.acceptance.crash_table --write docs/reference/crash-points.md
	$(BIN)/python -m tests.unit.loads.eta_calibration --write docs/reference/eta.md

lock: setup ## hashes of the wheels that installs of backends take, after an edit of a requirements.txt
	$(BIN)/python -m localai.backends.lock

clean: ## remove what setup made
	rm -rf $(VENV) build *.egg-info
