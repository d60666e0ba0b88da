# Every target sets itself up: .venv is made on first use, and brought up to date when pyproject.toml has changed.
# It takes make and Python 3.11 or later; `make PYTHON=/path/to/python` chooses which. ARGS is handed on.

BIN := .venv/bin

# pyproject.toml holds the one list of packages; the first level of it is the folders in the root.
PACKAGES := $(shell sed -n 's/^ *"pocketmq\.\([a-z_]*\)",$$/\1/p' pyproject.toml)

.DEFAULT_GOAL := help
.PHONY: help dev check fix test test-faults bench fuzz types clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s  %s\n", $$1, $$2 }' Makefile

dev: .venv/.ready-dev ## set up .venv and do nothing else
	@:

check: .venv/.ready-dev types ## formatter, linter and type checker, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(PACKAGES:%=-p pocketmq.%)
	$(BIN)/mypy tests benchmarks

fix: .venv/.ready-dev ## format the code and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: .venv/.ready-dev ## run the tests (ARGS: for pytest)
	$(BIN)/pytest $(ARGS)

test-faults: .venv/.ready-dev ## full disks, power cuts, NAT: makes disks and networks, as root on Linux (ARGS: for pytest)
	$(BIN)/pytest tests/faults $(ARGS)

bench: .venv/.ready-dev ## run every benchmark
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

fuzz: .venv/.ready-fuzz ## throw bytes at the decoders until stopped (ARGS: for libFuzzer)
	$(BIN)/python tests/fuzz/fuzz_protocol.py $(ARGS)

types: $(PACKAGES:%=.types/pocketmq/%) ## show type checkers and editors the root folders as pocketmq.*

clean: ## remove all that the other targets made
	rm -rf .venv .types .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each extra of pyproject.toml: a target that needs an extra names its stamp.
.venv/.ready-%: pyproject.toml
	@sh .ci/setup $*

# Never two set-ups at once, whatever -j says.
.venv/.ready-fuzz: .venv/.ready-dev

# Type checkers do not see an editable install. They do see a search root with a folder `pocketmq` in it.
.types/pocketmq/%:
	@mkdir -p $(@D) && ln -sfn ../../$* $@
