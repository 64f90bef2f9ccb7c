# make run and make test need nothing but Python 3.10+, a C compiler and make: they set up
# .venv, install the package into it and build the compiled core, each only when out of date.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PYTEST := $(PY) -m pytest

NATIVE := $(wildcard native/python/*.c native/src/*.c native/src/*.h native/include/*.h) native/seer.cdef native/build.py
CORE   := $(VENV)/.core-is-built
READY  := $(VENV)/.is-installed

ID     ?= uav_swarm
DRONES ?= 256
STEPS  ?= 600
SEED   ?= 7
GIF    ?= out/$(ID).gif

.PHONY: run test bench lint sanitize build dist clean help
.DEFAULT_GOAL := help

help: ## say what there is to make
	@grep -E '^[a-z]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(CORE) ## build, fly a UAV swarm, and draw it
	@mkdir -p $(dir $(GIF))
	@$(PY) -m seer run $(ID) --drones $(DRONES) --steps $(STEPS) --seed $(SEED) --policy heuristic --render $(GIF)

test: $(CORE) ## build, and run the tests
	$(PYTEST)

bench: $(CORE) ## measure the engine beside its baselines
	$(PYTEST) -m benchmark benchmarks

sanitize: $(CORE) ## the C tests under the address, undefined-behaviour and thread sanitizers
	$(PYTEST) -m sanitize

lint: $(READY) ## style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

build: $(CORE) ## install and compile, nothing more

dist: $(READY) ## a source archive, and a wheel made from it
	$(PY) -m build

clean: ## remove what was built; keeps .venv
	rm -rf build dist out *.egg-info seer/_native/*.so seer/vector/*.so seer/_native/_core.c native/tests/build $(CORE)
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# ---- set-up ------------------------------------------------------------------

$(PY):
	@$(PYTHON) -c 'import sys' 2>/dev/null || { echo "seer needs Python 3.10 or later as '$(PYTHON)' (Debian: apt-get install python3, or make PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "seer needs Python 3.10 or later; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another with make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) can't make virtual environments: its venv module is missing (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What is installed depends on pyproject.toml alone: the install is editable.
$(READY): pyproject.toml | $(PY)
	@$(MAKE) --no-print-directory compiler
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[bench,dev,test]' 'setuptools>=77'
	@touch $@

$(CORE): $(NATIVE) setup.py $(READY)
	@$(MAKE) --no-print-directory compiler
	$(PY) setup.py --quiet build_ext --inplace
	@$(PY) -c 'import seer._native'
	@touch $@

.PHONY: compiler
compiler:
	@cc="$${CC:-$$($(PY) -c 'import sysconfig; print((sysconfig.get_config_var("CC") or "cc").split()[0])')}"; \
	command -v "$$cc" >/dev/null 2>&1 || { \
	  echo "no C compiler: '$$cc' was not found (Debian: apt-get install gcc libc6-dev, or make CC=...)"; exit 1; }; \
	printf '#include <stdatomic.h>\n#include <stdlib.h>\nint main(void) { return 0; }\n' | "$$cc" -std=c11 -x c -o /dev/null - || { \
	  echo "'$$cc' can't compile a C11 program (Debian: apt-get install gcc libc6-dev)"; exit 1; }
	@$(PY) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { \
	  echo "Python.h is missing: the C headers of $$($(PY) -V) are not installed (Debian: apt-get install python3-dev)"; exit 1; }
