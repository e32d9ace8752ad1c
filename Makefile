# Every target is idempotent: what is done already is not done again.
#   make lab      environment, site in both languages, served on 127.0.0.1
#   make site     environment and site only, into _site/zh and _site/en
#   make runtime  adds the CPU runtime (torch, Ray, Megatron-Core, SGLang) for the laptop experiment
#   make test     environment and all tests
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
PORT ?= 8000
PYTEST_ARGS ?=
export PIP_ROOT_USER_ACTION := ignore

.PHONY: help lab site serve runtime test lint types imports unit pages js system bundle clean

help:
	@sed -n '2,5p' Makefile | cut -c3-

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) here. Install Python 3.11 to 3.13, or name yours: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"slime needs Python 3.11 to 3.13; $(PYTHON) is {v[0]}.{v[1]}. Name another: make PYTHON=python3.12")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "==> environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --progress-bar off --upgrade pip
	@touch $@

$(VENV)/.docs: $(VENV)/.created pyproject.toml
	@echo "==> docs half: the lab's engine, the Sphinx extension and the site (no torch)"
	$(PIP) install --progress-bar off --editable .
	@touch $@

$(VENV)/.runtime: $(VENV)/.docs requirements/runtime-cpu.txt requirements/runtime-cpu-nodeps.txt
	@echo "==> CPU runtime: torch, Ray, Megatron-Core, SGLang (about 2 GB; several minutes the first time)"
	$(PIP) install --progress-bar off --requirement requirements/runtime-cpu.txt
	$(PIP) install --progress-bar off --no-deps --requirement requirements/runtime-cpu-nodeps.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.docs pyproject.toml
	@echo "==> tools of the tests"
	$(PIP) install --progress-bar off --editable '.[dev]'
	@touch $@

site: $(VENV)/.docs
	$(PY) -m sphinx_slime_lab.site build

lab: site
	$(PY) -m sphinx_slime_lab.site serve --port $(PORT)

serve: $(VENV)/.docs
	$(PY) -m sphinx_slime_lab.site serve --port $(PORT)

runtime: $(VENV)/.runtime

system:
	@bash scripts/system-packages.sh

lint: $(VENV)/.dev
	@echo "==> ruff"
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	@echo "==> codespell"
	$(VENV)/bin/codespell

types: $(VENV)/.dev
	@echo "==> mypy"
	$(VENV)/bin/mypy

imports: $(VENV)/.dev
	@echo "==> who may import whom"
	$(VENV)/bin/lint-imports

js: system
	@echo "==> node --test"
	node --test tests/js/*.test.mjs

# axe-core, which the accessibility tests inject into pages; without npm they say that they were skipped.
node_modules/.installed: package.json
	@if ! command -v npm >/dev/null; then echo "==> no npm here: the accessibility tests will be skipped" >&2; \
	elif npm install --no-package-lock --no-audit --no-fund --silent; then touch $@; \
	else echo "==> npm could not fetch axe-core: the accessibility tests will be skipped" >&2; fi

unit: $(VENV)/.dev $(VENV)/.runtime system
	@echo "==> pytest"
	$(PY) -m pytest --ignore tests/pages $(PYTEST_ARGS)

# The built site itself: accessibility, strict policy, every width, reproducible builds.
pages: $(VENV)/.dev system node_modules/.installed
	@echo "==> the site in a browser"
	$(PY) -m pytest tests/pages $(PYTEST_ARGS)

test: $(VENV)/.dev $(VENV)/.runtime system lint types imports js unit pages

clean:
	rm -rf _site build .pytest_cache .mypy_cache .ruff_cache
