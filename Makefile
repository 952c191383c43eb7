# `make` alone teaches the project: every target has one line of help after `##`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

UV ?= $(or $(shell command -v uv),.tools/bin/uv)
RUN := $(UV) run --frozen --all-extras
WORKERS ?= 3
REPORT := .lakeward/tests.xml
# Where a shell forbids bytecode files, each Python process of a test would compile Airflow, Spark and pandas again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## print this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Run it
.PHONY: demo up down doctor
demo: install jars ## start everything, land the New York flights, open the Airflow UI (Ctrl-C stops it all)
	$(RUN) lakeward demo
up: install jars ## start the stack and deploy the project in this folder
	$(RUN) lakeward stack up
down: ## stop the streams at a batch boundary, then the stack
	$(RUN) lakeward stack down
doctor: install ## check Java, memory, disk, ports, jars, and say the next command
	$(RUN) lakeward doctor

##@ Develop it
.PHONY: install jars test test-fast durations lint format schemas page screenshots
.tools/bin/uv:
	@echo "fetching uv into .tools"
	@python3 -m venv .tools && .tools/bin/pip install --quiet --disable-pip-version-check uv
install: $(filter .tools/bin/uv,$(UV)) ## make the environment of uv.lock (.venv)
	@$(UV) sync --frozen --all-extras $(if $(wildcard .venv/bin/lakeward),--quiet)
jars: install ## fetch and verify the jars named in ivy.xml
	@$(RUN) python -m lakeward.jars
test-fast: lint ## lint, the unit tests and the contracts: five minutes on two quiet cores
	$(RUN) pytest -m "not campaign" tests/unit tests/contracts --numprocesses $(WORKERS) --durations 10
test: install jars ## every promise once, with fixed seeds: 20 to 45 minutes on two cores
	$(RUN) pytest -m "not campaign" --numprocesses $(WORKERS) --durations 25 --junitxml $(REPORT)
durations: ## record how long each test file took in the last `make test`; the next run is scheduled by it
	$(RUN) python tests/support/durations.py $(REPORT)
lint: install ## style, types, import arrows, dependencies, lock file, suppressions with reasons
	$(UV) lock --check
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) mypy benchmarks  # apart: one of its modules has the name of one of the tests
	$(RUN) lint-imports
	$(RUN) deptry src tests tests/support tests/faults tests/compose tests/kubernetes tests/yarn benchmarks tools dags spark_jobs
	$(RUN) deptry src --optional-dependencies-dev-groups dev --ignore DEP002
	$(RUN) python tools/no_cheat.py
	$(RUN) python tools/package_map.py --check
	$(RUN) python tools/error_codes.py --check
	$(RUN) python tools/openapi.py --check
format: install ## format the code
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
	$(RUN) python tools/package_map.py
	$(RUN) python tools/error_codes.py
schemas: install ## write the JSON Schemas, reference pages and dashboards generated from the code
	$(RUN) python -m lakeward.spec.docs.schema
	$(RUN) python -m lakeward.metrics.definitions docs/reference/metrics.md
	$(RUN) python tools/dashboards.py
	$(RUN) python tools/openapi.py

##@ Prove it
.PHONY: nightly
nightly: install jars ## campaigns and sweeps with random seeds, planted bugs, Airflow's parts: half a day, resumable
	$(RUN) python tests/faults/nightly.py

.PHONY: compose-test
compose-test: install jars ## docker-compose.yml on a Docker engine: up, kill each container, audit; not part of CI
	$(RUN) python tests/compose/prove.py

.PHONY: bench bench-quick
BENCH := $(UV) run --frozen --all-extras --group bench python benchmarks/run_all.py
bench: install jars ## every ratio of the docs in one run, about two hours on quiet cores; resumable; writes docs/explanation/benchmarks.md
	$(BENCH) $(if $(ONLY),--only $(ONLY))
bench-quick: install jars ## a part of the benchmarks in five minutes; writes nothing
	$(BENCH) --quick
.PHONY: kubernetes-test
kubernetes-test: install jars ## drivers as pods on a real API server of Kubernetes, built from Go: kill, evict, API away; not part of CI
	$(RUN) python tests/kubernetes/prove.py
.PHONY: yarn-test
yarn-test: install jars ## drivers on Hadoop's own ResourceManager and NodeManager: kill, ResourceManager away, queue full; not part of CI
	$(RUN) python tests/yarn/prove.py

screenshots: install jars ## the pictures of the docs, by a run of demo --check and a look at its page (needs Node, Chromium)
	cd ui && npm ci --no-audit --no-fund
	$(RUN) python tools/screenshots.py

page: ## build the page inside Airflow from ui/ (needs Node 20 or newer); what it builds is committed
	cd ui && npm ci --no-audit --no-fund && npm run check && npm run build
