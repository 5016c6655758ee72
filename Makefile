# Two commands: `make demo` and `make test`. Both make .venv from the hashed lock when it is missing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH := torch==2.13.0+cpu
JOBS ?= 2
TABLES := $(basename $(notdir $(wildcard grid/*.yaml)))
SHORT_CELLS := mtdnn/rte_minilm conll2003/wcnn wikiqa/cnn glue/wnli_bilstm
PORT ?= 5000
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/pip install --quiet --quiet
export PATH := $(CURDIR)/$(BIN):$(PATH)
export DVC_NO_ANALYTICS := 1
# some containers set it, and each process then compiles every module again
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-slurm lint docs reports check tables mlflow clean

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) --no-deps "$(TORCH)" 2>/dev/null || $(PIP) --no-deps --index-url $(TORCH_INDEX) "$(TORCH)"
	$(PIP) --require-hashes --use-pep517 -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY) ## Build the sample table through all the stages, with no network
	dvc repro --quiet report@sample
	@reglue tables sample
	@echo "This is reports/sample.md; reports/sample.svg draws it, results/sample.json has every number."

test: $(READY) ## Run every test, the workflow tests included (JOBS side by side)
	pytest --quiet --tb=short --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder -m "not gpu"

test-slurm: $(READY) ## Build the sample table on a Slurm cluster started here, and kill a node (needs root)
	pytest --quiet --tb=short -rs tests/test_determinism.py -k slurm

lint: $(READY) ## Check format, types, imports between floors, and spelling
	ruff format --check --quiet .
	ruff check --quiet .
	mypy --no-error-summary
	lint-imports --no-cache --no-logo
	snakefmt --check Snakefile workflow/Snakefile
	codespell

docs: $(READY) ## Build the documentation as a site in docs-site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 python -m mkdocs build --quiet --strict

reports: $(READY) ## Write every report, README.md and its figure again from results/
	@printf '%s\n' $(TABLES) | xargs -P $(JOBS) -n 1 python -m stages.report --log-level WARNING
	@python -m stages.report --log-level WARNING --readme
	@reglue zoo --readme

check: $(READY) ## Run lint, docs and test, compare the reports and, with REGLUE_MIRROR, retrain four cells
	$(MAKE) --no-print-directory --jobs $(JOBS) lint docs
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory reports
	git diff --exit-code --stat -- reports README.md zoo/README.md
	reglue doctor
	@if [ -z "$$REGLUE_MIRROR" ]; then echo "REGLUE_MIRROR is not set: no cell is retrained."; exit; fi; \
	printf '%s\n' $(SHORT_CELLS) | tr / ' ' | xargs -P $(JOBS) -L 1 reglue verify --seed 1 --quiet

tables: $(READY) ## Build every table from real data (REGLUE_MIRROR names a folder to fetch it from)
	snakemake --cores all --keep-going
	python -m stages.report --readme
	reglue zoo --readme
	reglue site

mlflow: $(READY) ## Import the runs into MLflow and show them on http://127.0.0.1:PORT
	python -m stages.track
	mlflow ui --backend-store-uri sqlite:///mlflow.db --host 127.0.0.1 --port $(PORT) --workers 1

clean: ## Remove what the stages wrote; DVC's cache and the environment stay
	rm -rf data artifacts runs reports/html docs-site mlruns mlflow.db .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis
