# The two commands of a newcomer are `make demo` and `make test`. PYTHON=python3.13 picks another interpreter, with an
# environment of its own.
PYTHON ?=
VENV := .venv$(if $(PYTHON),-$(notdir $(PYTHON)))
RUN := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo test quick check cov docs spec-tests bench bench-smoke storm failover mutation release-check audit format clean
.DELETE_ON_ERROR:

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo  ## a real MongoDB server under overload, live in the terminal
	@$(RUN) -m benchmarks.demo

quick: $(VENV)/.installed-dev  ## what a change needs before it is committed, in seconds
	@$(RUN) -m scripts.check --quick $(FILES)

test: $(VENV)/.installed-dev  ## the checks and tests of a change (PARTS=unit: one part, PARTS="trust planted": what CI adds; COVERAGE=yes: measure it)
	@$(RUN) -m scripts.check $(if $(COVERAGE),--coverage) $(PARTS)

check: $(VENV)/.installed-dev  ## style, types, architecture and size budgets
	@$(RUN) -m scripts.check ruff mypy pyright house

cov: $(VENV)/.installed-dev  ## unit and simulation tests, and the lines and branches that they miss
	@$(RUN) -m scripts.check --coverage unit sim

docs: $(VENV)/.installed-docs  ## the documentation site, offline, with all links checked (build/site/index.html)
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

spec-tests: $(VENV)/.installed-dev  ## the specification suites alone, with a table (spec-tests/README.md)
	@$(RUN) -m tests.spec $(ARGS)

bench: $(VENV)/.installed-bench  ## reads, writes and cursors against the other drivers (report in reports/; exits 1 below a target)
	@$(RUN) -m benchmarks bench $(ARGS)

bench-smoke: $(VENV)/.installed-dev  ## a minute or less: is find_one still cheap? (a part of make test)
	@$(RUN) -m benchmarks smoke

storm: $(VENV)/.installed-bench  ## retry storms: what policies do to goodput (report in reports/storm; QUICK=yes, ALL=yes)
	@$(RUN) -m benchmarks storm $(if $(ALL),all,standard) $(if $(QUICK),--quick) $(ARGS)

failover: $(VENV)/.installed-dev  ## kill the primary twenty times under load (exits 1 when a write is lost or it takes long)
	@$(RUN) -m benchmarks failover

mutation: $(VENV)/.installed-dev  ## break the decision code in many ways; the tests must notice (minutes: not in test)
	@$(RUN) -m scripts.mutation

release-check: $(VENV)/.installed-dev  ## build the packages, and use them as users do on each Python (minutes: not in test)
	@$(RUN) -m scripts.release $(ARGS)

audit: $(VENV)/.installed-audit  ## known vulnerabilities of the dependencies (needs an index with advisories)
	@$(RUN) -m pip freeze --quiet --exclude-editable | \
	$(RUN) -m pip_audit --strict --disable-pip --no-deps --progress-spinner off --requirement /dev/stdin

format: $(VENV)/.installed-dev  ## let ruff format and fix the code
	@$(RUN) -m ruff format . && $(RUN) -m ruff check --fix .

clean:  ## remove environments and caches
	@if [ -x $(RUN) ]; then $(RUN) -m mypy.dmypy stop >/dev/null 2>&1 || true; fi
	@rm -rf .venv .venv-* .coverage .coverage.* htmlcov .hypothesis .mypy_cache .dmypy.json .pytest_cache .ruff_cache

# Looked at before anything is downloaded: an interpreter, and what the mongod that will be used needs.
$(VENV)/.created:
	@python=$$(sh scripts/find-python "$(PYTHON)") && \
	"$$python" motorlite/testing/server/mongod_binary.py && \
	echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed-%: pyproject.toml $(VENV)/.created
	@echo "Installing motorlite[$*] into $(VENV)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@if [ $* = dev ] && command -v krb5-config >/dev/null; then \
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[gssapi]' || \
	echo "The package gssapi cannot be built here: the tests with a KDC will be skipped"; fi
	@touch $@
