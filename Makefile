# Everything runs in .venv, which is made when it is missing and renewed when pyproject.toml changes.
# Another interpreter: make test PYTHON=python3.13

PYTHON ?= $(shell for p in python3.11 python3; do if $$p -c "" 2>/dev/null; then echo $$p; break; fi; done)
PYTHON := $(PYTHON)
BIN := .venv/bin

# What does not depend on each other runs side by side.
MAKEFLAGS += --jobs=4

# What a target needs is installed when it is first run: make demo does not wait for Spark and linters.
INSTALLED := .venv/.installed-
# uv installs in half the time of pip. Where it is not on the PATH, pip installs it: that of PYTHON, because to bring one
# into .venv takes three seconds. uv does not read pip's settings: where these name an index, and where uv fails, pip
# installs everything. Spark comes as 450 MB of source: the wheel that is built of it and unpacked at once need not be
# compressed.
UV := $(or $(shell command -v uv),$(BIN)/uv)
QUIETLY := --quiet --disable-pip-version-check --no-compile
with_pip = { $(1)/bin/python -m ensurepip >/dev/null && $(1)/bin/python -m pip install $(QUIETLY) $(2); }
install = { test -x $(UV) && $(UV) pip install --quiet --python $(1)/bin/python $(STORED) pip $(2); } || $(call with_pip,$(1),$(STORED) $(2))
STORED := --config-settings=--build-option=--compression=stored

# Folder with the data sets for the benchmarks; those whose file is not there are skipped.
DATA ?= $(or $(PROBI_DATA),data)

# Runs of each experiment; the paper has 100. STAND_IN=--stand-in generates data sets whose files are not there.
RUNS ?= 5
STAND_IN ?=

# What make fuzz searches, all by default, and for how long each.
PARSERS ?=
MINUTES ?= 30

# Numba's cache does not notice a change in another file's callee, so its folder is named after the kernels' contents.
NUMBA_CACHE_DIR := $(shell $(PYTHON) tools/kernel_cache.py)
export NUMBA_CACHE_DIR
# Said when all that most tests need is in there; relative, because a target has no spaces.
COMPILED := .cache/numba/$(lastword $(notdir $(NUMBA_CACHE_DIR)))
KERNELS := $(COMPILED)/float64.compiled $(COMPILED)/float32.compiled

# A process more than cores; what shares a Spark session, a Dask cluster or a file's fixtures runs in the same one.
PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder
# No engines, no browser, no servers, no processes of their own, nothing that takes seconds.
CORE := not slow and not process and not dask and not spark and not browser and not stores
# Python keeps what it compiled, and pytest the tests that it rewrote: half of the time of collecting them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check test core all-tests oldest docs bench fuzz paper dist changelog lint format clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)itself  ## cluster the forecasts of hurricane Otis
	$(BIN)/probi demo -o results/otis

check: lint core  ## what to run before each commit: lint, and the core tests beside it

test: lint all-tests  ## lint, and beside it all tests, the examples in docstrings, README and docs

core: $(INSTALLED)bytecode $(KERNELS)
	HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),check) $(PYTEST) -m "$(CORE)"

all-tests: $(INSTALLED)bytecode $(KERNELS)
	$(PYTEST)

# Compiled once here, and not by each process of the tests that needs them; beside the installation of what only tests
# need, which takes probi itself away for a moment.
$(COMPILED)/%.compiled: $(INSTALLED)itself
	PYTHONPATH=src $(BIN)/python tools/compile_kernels.py $*
	@mkdir -p $(@D) && touch $@

docs: $(INSTALLED)docs  ## the site, in docs/_build/html; warnings, dead links and what axe finds are errors
	$(BIN)/python -m sphinx -W --keep-going --nitpicky --quiet -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python tools/site_links.py docs/_build/html
	$(BIN)/python tools/site_in_browser.py docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(INSTALLED)bench  ## time, memory and cost against others; DATA=folder with the data sets
	PROBI_DATA="$(DATA)" $(BIN)/python -m benchmarks

fuzz: $(INSTALLED)fuzz $(COMPILED)/float64.compiled  ## forged files for every parser; PARSERS="csv npy" MINUTES=30 each
	$(BIN)/python -m fuzz $(PARSERS) --minutes $(MINUTES)

oldest: .venv-oldest/.installed  ## the core tests with the oldest versions that pyproject.toml allows
	HYPOTHESIS_PROFILE=check $(subst $(BIN),.venv-oldest/bin,$(PYTEST)) -m "$(CORE)"

dist: $(INSTALLED)dist  ## build sdist and wheel in dist/, check both, and try each where nothing else is
	rm -rf dist build/empty build/again
	$(BIN)/python -m build --quiet
	$(BIN)/python -m build --quiet --outdir build/again
	for file in dist/*; do cmp $$file build/again/$${file#dist/} || exit 1; done  # built twice, the same bytes
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check --no-compile dist/*.whl
	$(TRY) wheel
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --force-reinstall dist/*.tar.gz
	$(TRY) sdist
	$(PYTHON) -c "import hashlib, pathlib; [print(hashlib.sha256(p.read_bytes()).hexdigest(), p) for p in sorted(pathlib.Path('dist').iterdir())]"

TRY := cd build/empty && bin/python -c "import probi; assert 'build/empty' in probi.__file__, probi.__file__; print(probi.__version__)" && bin/probi demo -o

# DRAFT= writes the section of the version in src/probi/__init__.py to CHANGELOG.md and removes the fragments.
DRAFT ?= --draft
changelog: $(INSTALLED)dist  ## show the news since the last release; DRAFT= writes them to CHANGELOG.md
	$(BIN)/towncrier build --yes $(DRAFT)

paper: $(INSTALLED)bench  ## the paper's experiments again; DATA=folder RUNS=5 STAND_IN=--stand-in
	$(BIN)/python -m experiments paper --data "$(DATA)" --runs $(RUNS) $(STAND_IN)

lint: $(INSTALLED)test  ## style, spelling, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)test  ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:  ## remove .venv, caches and builds
	rm -rf .venv .venv-oldest .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist docs/_build docs/gallery docs/reference/cli.md docs/reference/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What probi needs to run.
$(INSTALLED)itself: pyproject.toml | .venv/pyvenv.cfg
	@echo "installing probi"
	@$(call install,.venv,--editable .)
	@touch $@

# Two installers do not write to one folder at the same time.
$(INSTALLED)test: | $(INSTALLED)itself

# Tests and site side by side: all is installed before the first test starts, and kernels are compiled once.
ifeq (test docs,$(filter test docs,$(MAKECMDGOALS)))
$(INSTALLED)docs: | $(INSTALLED)test
$(INSTALLED)bytecode: | $(INSTALLED)docs
docs: | $(KERNELS)
endif

# Python compiles a module when it is first imported: once here, and not by each process of the tests. What cannot be
# collected they tell.
$(INSTALLED)bytecode: $(INSTALLED)test
	$(BIN)/python -m pytest --collect-only -qq >/dev/null || true
	@touch $@

# The stem is an extra of pyproject.toml. Bytecode is written when a module is first imported, not for all that is there.
$(INSTALLED)%: pyproject.toml | .venv/pyvenv.cfg
	@echo "installing what make $* needs"
	@$(call install,.venv,--editable ".[$*]")
	@touch $@

.venv-oldest/.installed: pyproject.toml | .venv/pyvenv.cfg
	$(PYTHON) -m venv --clear --without-pip .venv-oldest
	$(PYTHON) tools/oldest.py > .venv-oldest/constraints.txt
	$(call install,.venv-oldest,--constraint .venv-oldest/constraints.txt --editable ".[test]")
	@touch $@

.venv/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "No python3.11 or python3 found. Say which one: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv --without-pip .venv
	@test -x $(UV) || $(PYTHON) -m pip config list 2>/dev/null | grep -q '\.index-url=' || \
		$(PYTHON) -m pip --python $(BIN)/python install $(QUIETLY) uv || $(call with_pip,.venv,uv) || true
