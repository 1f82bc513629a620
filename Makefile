# The two commands of a newcomer are `make demo` and `make test`. PYTHON=python3.13 picks another interpreter, with an
# environment of its own.
PYTHON ?=
VENV := .venv$(if $(PYTHON),-$(notdir $(PYTHON)))
RUN := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo test check cov bench failover format clean
.DELETE_ON_ERROR:

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo  ## a real MongoDB server under overload, live in the terminal
	@$(RUN) -m benchmarks.demo

test: $(VENV)/.installed-dev  ## everything: check, unit, simulation and live tests, coverage
	@$(RUN) scripts/run_parts.py $(if $(PYTHON),--no-coverage)

check: $(VENV)/.installed-dev  ## style, types, architecture and size budgets
	@$(RUN) scripts/run_parts.py --no-coverage ruff mypy pyright house

cov: $(VENV)/.installed-dev  ## the tests alone, and the lines and branches that they miss
	@$(RUN) scripts/run_parts.py unit sim spec live

bench: $(VENV)/.installed-bench  ## point reads against the other drivers (exits 1 below the target)
	@$(RUN) -m benchmarks point-reads

failover: $(VENV)/.installed-dev  ## kill the primary twenty times under load (exits 1 when a write is lost or it takes long)
	@$(RUN) -m benchmarks failover

format: $(VENV)/.installed-dev  ## let ruff format and fix the code
	@$(RUN) -m ruff format . && $(RUN) -m ruff check --fix .

clean:  ## remove environments and caches
	@rm -rf .venv .venv-* .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache

# Looked at before anything is downloaded: an interpreter, and what the mongod that will be used needs.
$(VENV)/.created:
	@python=$$(sh scripts/find-python "$(PYTHON)") && \
	"$$python" motorlite/testing/mongod_binary.py && \
	echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed-%: pyproject.toml $(VENV)/.created
	@echo "Installing motorlite[$*] into $(VENV)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
