# The Python that .venv is made with: `make PYTHON=python3.12 setup`
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup sweep ui test test-vllm test-slurm unit lint format docs constraints clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv with vLLM in it, and the demo's models; goes on where it stopped
	@$(PYTHON) -m tools.setup

sweep: setup  ## measure four methods on the demo model, on this machine's CPU
	$(BIN)/python -m sweeper -m method=ngram,suffix,draft_model,eagle3 gamma=2,4 dataset=code,chat

ui: setup  ## look at results in the browser
	@$(BIN)/python -m sweeper.ui

test: setup lint  ## everything CI runs; starts real servers, minutes
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not long and not vllm and not slurm"
	@echo "and now servers of vLLM and clusters of Slurm, side by side: some twelve minutes"
	@$(MAKE) --no-print-directory -j 2 --output-sync=target test-vllm test-slurm

test-vllm: setup  ## the part of it that starts vLLM
	@$(BIN)/python -m pytest -q -m "vllm and not slurm and not long"

test-slurm: setup  ## the part of it that starts Slurm; waits more than it computes
	@$(BIN)/python -m pytest -q -m "slurm and not long"

unit: setup  ## the tests that start nothing; seconds
	@$(BIN)/python -m pytest -q -n $(WORKERS) tests/unit

lint: setup  ## style, layers, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy

format: setup  ## rewrite the sources in the project's style
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

docs: setup  ## build the pages into site/
	@$(BIN)/python -m pip install --quiet -c constraints.txt --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

constraints: setup  ## pin what this .venv holds, after its tests passed
	@$(BIN)/python -m tools.constraints > constraints.txt.new && mv constraints.txt.new constraints.txt

clean:  ## remove caches and built files; keeps .venv, outputs/ and the demo's models
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist site
	@find sweeper launchers hydra_plugins demo tests tools -name __pycache__ -prune -exec rm -rf {} +
