# Every target sets up what it needs first (scripts/setup.sh: quick when nothing is missing).

SHELL := bash
PYTHON := .venv/bin/python
# Spark's workers, Jupyter's kernels and the browser tests find the environment's programs first.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Images for containers like to forbid Python to keep what it has compiled. Here a hundred processes begin with the same
# imports (workers, kernels, drivers that are killed), and compiling them costs each more than half of its start.
unexport PYTHONDONTWRITEBYTECODE
# A JVM that lives for a test is up sooner, and takes a third less of the cores, without its second compiler.
QUICK_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

.DEFAULT_GOAL := help
.PHONY: help demo lab looks plays test docs notebooks bench lint format behaviours mutants swarm interop soak classroom slides wheelhouse lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo:  ## run a job, fail it, restore and rescale it; writes demo/index.html
	@scripts/setup.sh java
	$(PYTHON) -m examples.flights

lab:  ## open the notebooks in JupyterLab (ARGS= is handed on to it)
	@scripts/setup.sh java
	@$(PYTHON) -m jupyter trust notebooks/*.ipynb >/dev/null  # else JupyterLab keeps their pictures back until they are run
	JUPYTER_CONFIG_PATH=$(CURDIR)/scripts/jupyter $(PYTHON) -m jupyterlab notebooks $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

looks:  ## six jobs at three sizes in two themes, as a page and in JupyterLab: measured, with screenshots in build/looks
	@scripts/setup.sh browser
	KIT_LOOKS=$(CURDIR)/build/looks $(PYTHON) -m pytest -q -m "soak or not soak" -k can_be_read $(ARGS) \
	  tests/draw/test_stage_page.py tests/widgets/test_explorer_in_jupyterlab.py

plays:  ## play every play of the lab and say what it showed; REWRITE=1 writes what came of it (ARGS= names some)
	@scripts/setup.sh
	$(PYTHON) -m scripts.plays $(if $(REWRITE),--rewrite) $(ARGS)

test:  ## everything that must pass: style, types, tests, notebooks
	@scripts/setup.sh java browser zookeeper
	@# The Spark tests are one process that mostly waits, for workers to start and to be missed: the others have the cores
	@# meanwhile. Style and types come first among these, since in a fresh checkout one process then compiles what three
	@# would compile at once, each for itself.
	@$(MAKE) --no-print-directory -j 3 quicktests sparktests quickdocs
	SPARK_SUBMIT_OPTS="$(QUICK_JVM)" $(PYTHON) -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder -o verbosity_assertions=2 \
		-p nbval --nbval-lax --nbval-sanitize-with notebooks/sanitize.cfg notebooks

docs:  ## this documentation as a static site, into build/docs/html
	@scripts/setup.sh
	$(PYTHON) -m scripts.site

notebooks:  ## run the notebooks anew in place, and keep what they are to show (ARGS= names some)
	@scripts/setup.sh java
	TQDM_DISABLE=1 $(PYTHON) -m nbconvert --to notebook --execute --inplace $(or $(ARGS),$(wildcard notebooks/*.ipynb))
	$(PYTHON) -m nbstripout --keep-count $(or $(ARGS),$(wildcard notebooks/*.ipynb))

# Every page and every link, without playing the plays (scripts/site/__main__.py says what else it leaves out).
quickdocs:
	$(PYTHON) -m scripts.site --quick

quicktests: lint
	HYPOTHESIS_PROFILE=ci $(PYTHON) -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder \
		-m "not spark and not soak and not signals"
	@# A process of their own: the browser tests leave an event loop in the main thread, and that takes signals its own way.
	$(PYTHON) -m pytest -q -m "signals and not soak"

sparktests:
	SPARK_SUBMIT_OPTS="$(QUICK_JVM)" HYPOTHESIS_PROFILE=ci $(PYTHON) -m pytest -q -m "spark and not soak"

bench:  ## measure; WHICH=name measures one (ARGS= are passed on)
	@scripts/setup.sh java
	$(PYTHON) -m benchmarks $(WHICH) $(ARGS)

lint:  ## style and types
	@scripts/setup.sh
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

format:  ## mend style where it can be mended
	@scripts/setup.sh
	$(PYTHON) -m ruff check --fix
	$(PYTHON) -m ruff format

behaviours:  ## which of Flink's behaviours the tests pin, area by area (ARGS=-v names those that are not)
	@scripts/setup.sh
	$(PYTHON) -m tests.behaviours $(ARGS)

mutants:  ## plant faults in the kit, one after another, and see that each is found (ARGS=name for some)
	@scripts/setup.sh java
	$(PYTHON) -m tests.mutants $(ARGS)

swarm:  ## thousands of random jobs, orders and faults in the lab (ARGS="first last" for some seeds)
	@scripts/setup.sh
	$(PYTHON) -m scripts.swarm $(ARGS)

interop:  ## what we write, read by Flink itself (needs javac; fetches Flink's jars once)
	@scripts/setup.sh flink
	$(PYTHON) -m tests.interop $(ARGS)

soak:  ## what `make test` leaves out: long random runs, all rescales in all modes (hours; ARGS=, KIT_SOAK_MINUTES=60)
	@scripts/setup.sh java
	HYPOTHESIS_PROFILE=soak $(PYTHON) -m pytest -q -m "soak and not signals" $(ARGS)
	HYPOTHESIS_PROFILE=soak $(PYTHON) -m pytest -q -m "soak and signals" $(ARGS)

classroom:  ## give out the labs, hand in right, empty and wrong answers, grade them with nbgrader (ARGS= names some)
	@scripts/setup.sh classroom
	build/classroom/env/bin/python -m scripts.classroom $(ARGS)

slides:  ## the main pictures for a teacher's slides, as SVG and PNG in build/slides
	@scripts/setup.sh browser
	$(PYTHON) -m scripts.slides

wheelhouse:  ## all that a class room without a network installs from, in build/wheelhouse
	@scripts/setup.sh
	scripts/wheelhouse.sh

lock:  ## after a change of dependencies: uv.lock and environment.yml anew
	@scripts/setup.sh lock
	@scripts/setup.sh
	$(PYTHON) -m scripts.environment

clean:  ## remove all that make made, the environment too
	rm -rf .venv .uv demo build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
