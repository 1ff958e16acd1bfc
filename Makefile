# Every target sets up what it needs, once: a virtual environment in .venv, and Java for Spark.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= configs/corpus/demo.yaml
SET ?=
# Without a GPU the CPU build is enough for tests; choose another with TORCH=torch==X.Y.
TORCH ?= torch==2.13.0
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help demo corpus check test test-all lint bench clean java
.DEFAULT_GOAL := help

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/corpus.ready java  ## a corpus from this machine's own texts, with one command
	$(BIN)/millrace corpus demo-crawl build/demo/crawl
	$(BIN)/millrace corpus build configs/corpus/demo.yaml

corpus: $(VENV)/corpus.ready java  ## a corpus: make corpus CONFIG=my.yaml [SPARK_MASTER=spark://...] [SET="key=value ..."]
	$(BIN)/millrace corpus build $(CONFIG) $(SET)

check: $(VENV)/corpus.ready  ## audit a corpus: make check RUN=build/demo/corpus
	$(BIN)/millrace corpus check $(or $(RUN),build/demo/corpus)

test: $(VENV)/test.ready java  ## the tests, a few minutes
	$(BIN)/python -m pytest -q $(ARGS)

test-all: $(VENV)/test.ready java  ## the tests and the long proofs
	$(BIN)/python -m pytest -q -m 'slow or not slow' $(ARGS)

lint: $(VENV)/test.ready  ## style, types, import rules
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: $(VENV)/test.ready java  ## benchmarks against peers: make bench [NAME=extract]
	$(BIN)/python tests/benchmarks/run.py $(NAME)

clean:  ## remove what was built; the environment stays
	rm -rf build

# A C++ compiler is needed only where a package has no wheel.
$(VENV)/corpus.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[corpus]'
	touch $@

$(VENV)/test.ready: $(VENV)/corpus.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[corpus,extractors,test]' '$(TORCH)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: 'megatron-core==0.16.1' || echo 'no megatron-core wheel for this Python: its referee tests are skipped'
	touch $@

java:
	@java_major() { "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -1; }; \
	if [ "$$(java_major)" -ge 17 ] 2>/dev/null; then exit 0; fi; \
	if [ -z "$$JAVA_HOME" ] && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "Installing Java for Spark (default-jre-headless)"; \
	  apt-get update -qq && apt-get install -y -qq default-jre-headless >/dev/null; \
	fi; \
	[ "$$(java_major)" -ge 17 ] 2>/dev/null || { echo "Spark needs Java 17 or newer$${JAVA_HOME:+, and JAVA_HOME=$$JAVA_HOME is not}: apt-get install openjdk-17-jre-headless, or set JAVA_HOME" >&2; exit 1; }
