# One command for each thing; `make help` lists them. CI runs the same ones (.ci/run).
.DEFAULT_GOAL := help
.PHONY: help setup interop demo demo-pipeline test test-all test-lowest check format docs bench soak lock clean

BIN := .venv/bin
# Test processes: as many as cores, at most 8. ARGS goes to pytest, as in: make test ARGS="tests/coverage -x"
JOBS ?= auto
ARGS ?=
PYTEST = $(BIN)/pytest -n $(JOBS) --maxprocesses 8 --dist worksteal
INSTALLED := pyproject.toml src/gapless/_version.py requirements/build.txt tools/env.sh

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: .venv/.stamp-dev ## make .venv with all that developers need (locked; costs nothing the second time)

.venv/.stamp-dev: requirements/dev.txt $(INSTALLED)
	@bash tools/env.sh dev

.venv/.stamp-demo: requirements/demo.txt $(INSTALLED)
	@bash tools/env.sh demo

demo: .venv/.stamp-demo ## run the main job on real data: a year of weather at three airports, and of flights through Spark
	@mkdir -p build
	$(BIN)/gapless demo --out build/demo

demo-pipeline: setup ## flights through a Kafka broker and one file of SQL into two tables (jars from Maven Central, the first time)
	@mkdir -p build
	$(BIN)/gapless demo pipeline --out build/demo-pipeline --jars build

interop: setup ## make environments of other readers and writers of Delta tables, which tests ask
	@bash tools/interop.sh

test: interop ## run the tests that a change is most likely to break, with slices of the long ones: about ten minutes on two cores
	$(PYTEST) $(ARGS)

test-all: interop ## run all tests but those of `make soak`, and a part on the oldest dependencies: under half an hour on two cores
	$(PYTEST) -m "not soak" $(ARGS)
	@$(MAKE) --no-print-directory test-lowest

# Where our dependencies decide most; a few minutes. `make soak` runs nearly all. Old Polars warns of every fork, old matplotlib calls old names.
LOWEST ?= tests/predicate tests/files/ingest tests/files/read tests/tables/shared tests/tables/timeseries/read tests/tables/delta/expressions \
    tests/tables/delta/read tests/store/test_store_contract.py tests/draw tests/cli/test_app.py tests/test_public_surface.py
# What needs Spark, or other readers and writers, or measures, or takes very long.
NOT_LOWEST := spark interop testing bench process docs

test-lowest: setup ## run tests on the oldest releases that pyproject.toml allows (Python 3.11 or 3.12; LOWEST= names other tests)
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then \
	    bash tools/locked_env.sh requirements/lowest.txt build/lowest && \
	    PYTHONPATH=$(CURDIR)/src:$(CURDIR)/tests POLARS_ALLOW_FORKING_THREAD=1 build/lowest/bin/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal \
	        -o cache_dir=build/lowest/pytest_cache -W ignore::pyparsing.warnings.PyparsingDeprecationWarning $(LOWEST); \
	else \
	    echo "test-lowest: skipped, the oldest releases have no wheels for the Python of .venv (3.11 and 3.12 do)" >&2; \
	    [ "$${CI:-}" != true ]; \
	fi

check: setup ## formatting, lint and bans (ruff), types (mypy strict), layers (import-linter)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## build the documentation into build/site, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site

bench: setup ## gapless beside every peer that installs (ARGS goes there, as in ARGS=--quick), then the other bench/bench_*.py
	$(BIN)/python bench/bench_peers.py $(ARGS)
	@for script in $(filter-out bench/bench_peers.py,$(wildcard bench/bench_*.py)); do \
	    echo "== $$script"; $(BIN)/python "$$script" || exit 1; \
	done

soak: interop ## all tests, those that run for minutes too, with many fresh examples each time: hours
	HYPOTHESIS_PROFILE=long $(PYTEST) -m "soak or not soak" $(ARGS)
	@$(MAKE) --no-print-directory test-lowest LOWEST="tests $(NOT_LOWEST:%=--ignore=tests/%)"

lock: ## write requirements/*.txt anew from pyproject.toml (needs uv; UPGRADE=1 takes newer versions)
	bash tools/lock.sh

clean: ## remove what was made, .venv included
	rm -rf .venv build dist site .hypothesis .import_linter_cache .ruff_cache .mypy_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
