# `make` alone teaches the project: every target has one line of help after `##`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

UV ?= uv
RUN := $(UV) run --frozen --all-extras

.PHONY: help
help: ## print this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
.PHONY: install jars test lint format schemas
install: ## make the environment of uv.lock (.venv)
	@command -v $(UV) >/dev/null || { echo "uv is missing. Install it: pip install uv   (or see its documentation)"; exit 2; }
	@$(UV) sync --frozen --all-extras --quiet
jars: install ## fetch and verify the jars named in ivy.xml
	@$(RUN) python -m lakeward.jars
test: install jars ## run every test (about a quarter of an hour)
	$(RUN) pytest
lint: install ## style, types, import arrows, lock file, suppressions with reasons
	$(UV) lock --check
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports
	$(RUN) python tools/no_cheat.py
format: install ## format the code
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
schemas: install ## write the JSON Schemas and reference pages generated from the code
	$(RUN) python -m lakeward.spec.schema

##@ Prove it
.PHONY: faults
faults: install jars ## the long campaign: seeded demo runs with the driver killed (resumes; SEEDS=1-10)
	$(RUN) python tests/faults/campaign.py --seeds $(or $(SEEDS),1-10)
