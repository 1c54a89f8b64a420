# Two commands are all the set-up there is: make demo, make test. `make help` lists all, with their
# times on two busy cores after installation.
PYTHON ?= python3
# Options for pytest; a process for each core.
PYTEST ?= -n auto --dist loadscope --no-loadscope-reorder
# --times lists CPU seconds of all rooms of tests; without it only those past their share.
TIMES ?=
VENV ?= .venv
BIN := $(VENV)/bin
# What the demo needs, and what the tests need besides, in one environment.
DEMO := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
TORCH := build/torch/.installed
# uv installs in a fraction of pip's time: it does where it is there.
UV := $(shell command -v uv)
INSTALL := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)

# Keeps TensorFlow's start-up chatter out of the output of these commands; its first lines come before
# it reads this variable.
export TF_CPP_MIN_LOG_LEVEL ?= 3
QUIETLY = $(BIN)/python tests/support/quietly.py
# pytest keeps the test files that it has prepared: preparing them takes each process five seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help:  ## show the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "tfmp needs Python 3.11, 3.12 or 3.13; name one with: make PYTHON=python3.11 ..."; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(DEMO): $(BIN)/python pyproject.toml setup.cfg
	@echo "== installing into $(VENV) what the demo needs (once; $(if $(UV),a minute with uv,two minutes with pip))"
	@$(INSTALL) --editable '.[samples]'
	@touch $@

$(STAMP): $(BIN)/python pyproject.toml setup.cfg
	@echo "== installing into $(VENV) what the tests need (once; $(if $(UV),a minute with uv,a few minutes with pip))"
	@$(INSTALL) --editable '.[test]'
	@touch $@ $(DEMO)

install: $(STAMP)  ## make the virtual environment with all that tests need (minutes, once)

demo: $(DEMO)  ## train a digits model in mixed precision, convert it to FP16, prove it (half a minute; 2 minutes to install, once)
	@$(QUIETLY) samples/digits_end_to_end.py

lint: $(STAMP)  ## lint and format (a second)
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# Neither mypy nor mkdocstrings can follow setup.cfg's map from tfmp.converters to converters/: links
# draw the tree that users install.
links:
	@rm -rf build/types && mkdir -p build/types/tfmp && ln -s $(CURDIR)/tfmp/* $(CURDIR)/converters build/types/tfmp

types: $(STAMP) links  ## types (10 seconds)
	@echo "== types"
	@cd build/types && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml -p tfmp

check: lint types  ## lint, types and the tests of your change (a minute)
	@echo "== tests of the changes since the last commit"
	@tests=$$($(BIN)/python tests/support/touched.py) || exit; \
		test -z "$$tests" || $(BIN)/pytest -m "not slow" $(PYTEST) $$tests || test $$? = 5

test: lint types  ## lint, types and all tests but the slow ones (7 minutes on two quiet cores)
	@echo "== tests"
	@$(BIN)/pytest -m "not slow" $(TIMES) $(PYTEST)

test-times: TIMES := --times
test-times: test  ## the same, with CPU seconds by room and file

# PyTorch, in an environment that sees the packages of the other one: 1 GB from PyTorch's index for
# processors (PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu), 5 GB with CUDA's libraries.
$(TORCH): $(STAMP)
	@$(BIN)/python -c 'import sys, importlib.util as u; sys.exit(u.find_spec("torch") is None)' || { \
		echo "== installing PyTorch into build/torch (once; minutes)" && rm -rf build/torch \
		&& $(BIN)/python -m venv build/torch && site=$$(echo build/torch/lib/python*/site-packages) \
		&& $(BIN)/python -c 'import sysconfig as s; print("import site; site.addsitedir(%r)" % s.get_path("purelib"))' \
			> $$site/tests.pth \
		&& build/torch/bin/python -m pip install --quiet 'torch>=2.10,<2.14' 2> build/torch.log \
		&& touch $@ || echo "PyTorch cannot be installed, its tests are skipped: build/torch.log"; }

test-slow: $(STAMP) $(TORCH)  ## the slow tests: every row of every sweep, large models, PyTorch (half an hour)
	@$(BIN)/pytest -m slow $(TIMES) $(PYTEST)

docs: $(STAMP) links  ## build the documentation site, with the demo's reports, into build/site (a minute)
	@echo "== docs"
	@$(INSTALL) --quiet --editable '.[docs]'
	@$(QUIETLY) samples/digits_end_to_end.py build/demo > build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "read it: $(PYTHON) -m http.server --directory build/site"

release: docs  ## build and check all that a release uploads, and say how; uploads nothing (3 minutes)
	@echo "== release"
	@$(INSTALL) --quiet --editable '.[release]'
	@rm -rf dist build/lib
	@$(BIN)/python -m build --outdir dist > build/release.log 2>&1 || { cat build/release.log; exit 1; }
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/pytest --quiet tests/test_release.py
	@$(BIN)/python tests/support/release_steps.py

# What tfmp costs beside its rivals. Scripts that write a page of docs are run one by one: each says at
# its top what it needs, and how long it takes.
BENCH := "onnx_export.py --quick" "step_time.py --copies 5" "compare_throughput.py" \
	"colocate.py --rounds 3"

bench: $(STAMP)  ## measure exports, steps, comparisons and shared devices; prints tables (an hour)
	@for script in $(BENCH); do echo "== benchmarks/$$script"; $(BIN)/python benchmarks/$$script || exit 1; done

clean:  ## remove everything that these commands made
	@rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: help install demo lint links types check test test-times test-slow docs release bench clean
