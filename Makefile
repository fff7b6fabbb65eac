# The words people use. `make demo` and `make test` need nothing prepared but Linux, Python 3.11 to 3.13 and pip.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: help demo test test-slow corpus lint types layers unit bench bench-loop bench-store cheats wheel clean

help:            ## what there is
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.platform == "linux" and (3, 11) <= sys.version_info[:2] <= (3, 13) else "triton-agent needs Linux and Python 3.11 to 3.13; this is " + sys.platform + " with Python " + sys.version.split()[0] + " (choose another with make PYTHON=python3.12)")'
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)   ## optimize an example end to end on this machine; no GPU, key or weights
	@$(BIN)/python -m triton_agent optimize examples/softmax.py --turns 3 --out demo --store demo/runs.db
	@$(BIN)/python -m triton_agent evaluate examples/softmax.py demo/softmax_optimized.py examples/softmax_half.py; \
	  code=$$?; test $$code -eq 1 || { echo "the demo expects the draft to pass and the faulty kernel to be refused"; exit 1; }

test: lint types layers unit   ## everything CI asks for

lint: $(STAMP)   ## style
	@echo "== lint"; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python benchmarks/freeze.py --check

types: $(STAMP)  ## mypy, strict where it counts
	@echo "== types"; $(BIN)/mypy

layers: $(STAMP) ## the one arrow between the folders
	@echo "== layers"; $(BIN)/lint-imports --config pyproject.toml

unit: $(STAMP)   ## tests, but the slow ones
	@echo "== tests"; $(BIN)/python -m pytest -q -m "not slow" -n 2 --dist loadgroup

test-slow: $(STAMP)  ## the slow tests
	@$(BIN)/python -m pytest -q -m slow

corpus: $(STAMP)  ## right and wrong kernels over all operators: the slow part of it
	@$(BIN)/python -m pytest -q -m slow tests/tools/test_corpus.py

cheats: $(STAMP) ## the scoreboard of cheats and honest oddities, with the screen on and off
	@$(BIN)/python -m tests.scoreboard && $(BIN)/python -m tests.scoreboard --no-screen

bench: $(STAMP)  ## verdicts per second against a fresh process per candidate
	@$(BIN)/python benchmarks/evaluator.py && $(BIN)/python docs/make_results.py

bench-loop: $(STAMP) ## what the loop itself costs, a turn and a candidate
	@$(BIN)/python benchmarks/loop.py

bench-store: $(STAMP) ## the store at a million attempts; ten minutes and 10 GB of disk
	@$(BIN)/python benchmarks/store.py

wheel: $(STAMP)  ## build the wheel and the source archive
	@$(BIN)/python -m build --outdir dist .

clean:           ## remove the environment and what was built
	rm -rf $(VENV) build dist demo .mypy_cache .ruff_cache .pytest_cache src/*.egg-info
