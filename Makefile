# Every target sets up what it needs first (scripts/setup.sh: quick when nothing is missing).

SHELL := bash
PYTHON := .venv/bin/python
# Spark's workers, Jupyter's kernels and the browser tests find the environment's programs first.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Container images often forbid Python to write compiled files. Here a hundred processes start with the same imports
# (workers, kernels, drivers that are killed), and compiling takes more than half of the start of each.
unexport PYTHONDONTWRITEBYTECODE
# Without its second compiler, a JVM that lives for one test starts faster and takes a third less CPU time.
QUICK_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

# The tests of what needs no extra: the protocol, operators, state, files, the lab, checkpoints.
CORE_TESTS := core files hosts/lab machines restore_check run snapshots stream verify why

# The files with tests of a mark: pytest need not import the other four hundred to find these (tests/conftest.py checks it).
marked = $(shell grep -rl --include='test_*.py' 'mark\.$(1)\b' tests)

.DEFAULT_GOAL := help
.PHONY: help demo lab looks missions scenarios test test-oldest docs notebooks bench lint format behaviours mutants hunt swarm interop soak classroom wheelhouse lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo:  ## run a job, fail it, restore and rescale it; writes demo/index.html
	@scripts/setup.sh java
	$(PYTHON) -m examples.flights

lab:  ## open the notebooks in JupyterLab (ARGS= are its arguments)
	@scripts/setup.sh java
	@$(PYTHON) -m jupyter trust notebooks/*.ipynb >/dev/null  # else JupyterLab keeps their pictures back until they are run
	JUPYTER_CONFIG_PATH=$(CURDIR)/scripts/jupyter $(PYTHON) -m jupyterlab notebooks $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

looks:  ## measure six jobs at three sizes in two themes, as a page and in JupyterLab, with screenshots in build/looks
	@scripts/setup.sh browser
	KIT_LOOKS=$(CURDIR)/build/looks $(PYTHON) -m pytest -q -m "soak or not soak" -k can_be_read $(ARGS) \
	  tests/draw/test_stage_page.py tests/widgets/test_explorer_in_jupyterlab.py

missions:  ## play the twelve missions in JupyterLab and on pages, and record them in build/missions
	@scripts/setup.sh browser
	KIT_LOOKS=$(CURDIR)/build/missions $(PYTHON) -m pytest -q -m "soak or not soak" $(ARGS) tests/widgets/test_missions_in_jupyterlab.py

scenarios:  ## run all scenarios of the lab and report differences; REWRITE=1 writes the actual outcomes (ARGS= names some)
	@scripts/setup.sh
	$(PYTHON) -m scripts.scenarios $(if $(REWRITE),--rewrite) $(ARGS)

test:  ## run every check: style, types, tests, notebooks
	@scripts/setup.sh java browser zookeeper
	@# The Spark tests are two processes that often wait, for workers to start and to be missed. The others have the cores
	@# meanwhile, and give way (nice) when these go on: they would end last. The notebooks begin when one of the three is done.
	@$(MAKE) --no-print-directory --keep-going -j 3 sparktests quicktests quickdocs notebooktests

test-oldest:  ## run the tests of the core with the oldest versions of its dependencies, in build/oldest (ARGS= are pytest's)
	@scripts/setup.sh oldest
	@# Old packages use what newer ones beside them call deprecated.
	build/oldest/bin/python -m pytest -q -W ignore::DeprecationWarning -p no:cacheprovider -n 2 --dist loadfile --no-loadscope-reorder \
		-m "not spark and not soak and not signals" $(or $(ARGS),$(addprefix tests/,$(CORE_TESTS)))

docs:  ## build the documentation as a static site in build/docs/html
	@scripts/setup.sh
	$(PYTHON) -m scripts.site

notebooks:  ## run the notebooks in place and store their outputs (ARGS= names some)
	@scripts/setup.sh java
	TQDM_DISABLE=1 $(PYTHON) -m nbconvert --to notebook --execute --inplace $(or $(ARGS),$(wildcard notebooks/*.ipynb))
	$(PYTHON) -m nbstripout --keep-count $(or $(ARGS),$(wildcard notebooks/*.ipynb))

# Build every page and check every link, without running the scenarios (scripts/site/__main__.py lists what else is left out).
quickdocs:
	nice -n 5 $(PYTHON) -m scripts.site --quick

quicktests:
	@# Not a prerequisite: the notebooks would then begin in its place as soon as it ends.
	@$(MAKE) --no-print-directory lint
	@# In a fresh checkout one process compiles the tests, which three would compile at once, each for itself.
	@[[ -d tests/stream/api/__pycache__ ]] || $(PYTHON) -m pytest -q --collect-only >/dev/null
	SPARK_SUBMIT_OPTS="$(QUICK_JVM)" HYPOTHESIS_PROFILE=ci nice -n 5 $(PYTHON) -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder \
		-m "not spark and not soak and not signals"

sparktests:
	SPARK_SUBMIT_OPTS="$(QUICK_JVM)" HYPOTHESIS_PROFILE=ci $(PYTHON) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder \
		-m "spark and not soak" $(call marked,spark)
	@# A process of their own: the browser tests leave an event loop in the main thread, and that takes signals its own way.
	$(PYTHON) -m pytest -q -m "signals and not soak" $(call marked,signals)

notebooktests:
	SPARK_SUBMIT_OPTS="$(QUICK_JVM)" $(PYTHON) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -o verbosity_assertions=2 \
		-p nbval --nbval-lax --nbval-sanitize-with notebooks/sanitize.cfg notebooks

bench:  ## run the benchmarks; WHICH=name runs one (ARGS= are its arguments)
	@scripts/setup.sh java
	$(PYTHON) -m benchmarks $(WHICH) $(ARGS)

lint:  ## check style and types
	@scripts/setup.sh
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

format:  ## format the code and fix style
	@scripts/setup.sh
	$(PYTHON) -m ruff check --fix
	$(PYTHON) -m ruff format

behaviours:  ## count the behaviours of Flink that tests pin, by area (ARGS=-v names the others)
	@scripts/setup.sh
	$(PYTHON) -m tests.behaviours $(ARGS)

mutants:  ## plant bugs in the kit, one after another, and check that a test finds each (ARGS=name for some)
	@scripts/setup.sh java
	$(PYTHON) -m tests.mutants $(ARGS)

hunt:  ## plant random faults in a copy of the kit and report those that no test finds (ARGS="kit/run --seed 7 --count 40")
	@scripts/setup.sh
	$(PYTHON) -m tests.mutants.hunt $(ARGS)

swarm:  ## run thousands of random jobs, orders and faults in the lab (ARGS="first last" for some seeds)
	@scripts/setup.sh
	$(PYTHON) -m scripts.swarm $(ARGS)

interop:  ## let Flink read the kit's checkpoints (needs javac; downloads Flink's jars once)
	@scripts/setup.sh java flink
	$(PYTHON) -m tests.interop $(ARGS)

soak:  ## run the long tests: random runs, all rescales in all modes (hours; ARGS=, KIT_SOAK_MINUTES=60)
	@scripts/setup.sh java databases
	@$(MAKE) --no-print-directory test-oldest ARGS=
	@# The properties with all their examples, at random: `make test` has time for twenty of most.
	$(PYTHON) -m pytest -q -n 2 -m "hypothesis and not soak and not spark" $(ARGS)
	HYPOTHESIS_PROFILE=soak $(PYTHON) -m pytest -q -m "soak and not signals" $(ARGS)
	HYPOTHESIS_PROFILE=soak $(PYTHON) -m pytest -q -m "soak and signals" $(ARGS)

classroom:  ## generate the labs, submit correct, empty and wrong answers, grade them with nbgrader (ARGS= names some)
	@scripts/setup.sh classroom
	build/classroom/env/bin/python -m scripts.classroom $(ARGS)

wheelhouse:  ## collect all packages for a classroom without a network in build/wheelhouse
	@scripts/setup.sh
	scripts/wheelhouse.sh

lock:  ## update uv.lock and environment.yml after a change of dependencies
	@scripts/setup.sh lock
	@scripts/setup.sh
	$(PYTHON) -m scripts.environment

clean:  ## remove all generated files and the environment
	rm -rf .venv .uv demo build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
