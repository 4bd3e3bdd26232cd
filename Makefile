# make run      set everything up, run the headline comparison and a quick league with its report
# make test     set everything up and run the tests
# make check    format, lint, types, all tests, the slow ones too: the gate
# make mutants  break the package in 100 places and list those that the tests do not notice (Python 3.12 or newer)
# make picture  draw the picture of the service's pages that README shows
# make bench    measure speed, memory and start-up

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Install packages of Debian or Ubuntu; say what is missing where that cannot be done.
apt = if ! command -v apt-get > /dev/null; then echo "$(2) Install it; there is no apt-get here to do it." >&2; exit 1; \
	elif test "$$(id -u)" = 0; then sudo=; \
	elif command -v sudo > /dev/null; then sudo=sudo; \
	else echo "$(2) Have root run: apt-get install --no-install-recommends $(1)" >&2; exit 1; fi; \
	$$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends $(1)

.PHONY: run test check browser wrk mutants picture bench format clean

run: $(READY)
	$(BIN)/belated compare
	$(BIN)/belated league --suite quick --replications 5 --out results/quick
	$(BIN)/belated report results/quick
	@echo "To see the service and its pages with a lively shop: $(BIN)/belated demo"

# Compile once, then test, four at a time: many tests wait. Temporary files go to memory where there is room: most of the time of a commit is
# the disk's.
SHM := $(shell test -w /dev/shm && echo /dev/shm)
PYTEST := $(if $(SHM),TMPDIR=$(SHM)) $(BIN)/python -m pytest
WHICH ?= not slow

test: $(READY) browser
	PYTHONPATH=tests $(BIN)/python -m support.compile_all
	$(PYTEST) --numprocesses 4 --dist loadfile --no-loadscope-reorder -m "$(WHICH)"

check: $(READY) browser
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) test WHICH="slow or not slow"

# tests open pages in Chromium, the system's or the one that `playwright install chromium` brings
browser: $(READY)
	@PYTHONPATH=tests $(BIN)/python -m support.browser || { $(call apt,chromium,Tests of pages need Chromium.); }

mutants: $(READY) browser
	$(BIN)/python experiments/mutants.py map
	$(BIN)/python experiments/mutants.py run --seed $(or $(SEED),1)

# benchmarks of the service are loaded by wrk
wrk:
	@command -v wrk > /dev/null || { $(call apt,wrk,Benchmarks of the service need wrk.); }

picture: $(READY) browser
	$(BIN)/python experiments/picture.py

bench: $(READY) wrk
	$(BIN)/python benchmarks/bench.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# of lifelines and obp only the data are needed, not what they depend on
$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "belated needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[cluster,service,parquet,cli]' --group dev
	$(BIN)/python -m pip install --quiet --no-deps lifelines obp
	touch $(READY)

clean:
	rm -rf $(VENV) results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
