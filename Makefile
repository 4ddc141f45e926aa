# The same commands by hand and in CI. `make` alone lists them.
PORT ?= 8000
HOST ?= 127.0.0.1
DATA ?= ./data
PY := .venv/bin/python
.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE  # without bytecode each process compiles what it imports: seconds of CPU at every start
.PHONY: help setup demo run worker test test-vllm test-matrix check fix bench bench-train bench-step bench-gpu audit sbom lock lock-images

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: ## make .venv from the lock, install bubblewrap where possible
	@infra/setup/venv.sh
	@infra/setup/bubblewrap.sh
	@$(PY) -m workers.sandbox check || true

demo: setup ## hub + worker + sample environments, evaluated with a real tiny model; the hub stays up
	@$(PY) -m infra.demo --data $(DATA) --port $(PORT) $(DEMO)

run: setup ## the hub with its embedded worker, all state under DATA
	@exec env HUB_DATA=$(DATA) HUB_BASE_URL=$${HUB_BASE_URL:-http://$(HOST):$(PORT)} $(PY) manage.py serve --tiny-model --host $(HOST) --port $(PORT)

worker: setup ## a worker of a hub elsewhere: make worker HUB_URL=... TOKEN=... [ARGS="-Q build,eval"]
	@exec env WORKER_HUB_URL=$(HUB_URL) WORKER_TOKEN=$(TOKEN) $(PY) -m celery --app workers --quiet worker $(ARGS)

test: setup ## the tests: the hub on Postgres + Redis when reachable, else all on SQLite + embedded broker
	@infra/setup/chromium.sh
	@infra/setup/tools.sh
	@$(PY) -m tests.run $(TEST)

test-vllm: setup ## the tests that need vLLM (installs its CPU build)
	@infra/setup/vllm.sh
	@VLLM_PYTHON=$(CURDIR)/.venv-vllm/bin/python $(PY) -m tests.run --vllm

test-matrix: setup ## the hub on SQLite, every supported verifiers release, every kill point, containers (long)
	@infra/setup/podman.sh
	@infra/setup/vllm.sh
	@$(PY) -m pytest -q -n 4 -m "not matrix and not vllm and not browser" tests/hub
	@VLLM_PYTHON=$(CURDIR)/.venv-vllm/bin/python $(PY) -m pytest -q -m matrix tests

check: setup ## ruff, mypy --strict, import contracts, migrations
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@.venv/bin/hadolint infra/docker/*.Dockerfile
	@HUB_DATA=$$(mktemp -d) $(PY) manage.py makemigrations --check --dry-run

fix: setup ## format and repair what can be repaired
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .

bench: setup ## the benchmarks: ratios measured in one run
	@$(PY) -m tests.bench

bench-train: setup ## the learner against a padded one and TRL's (half an hour; TRAIN_BENCH='--pairs 1 --only short-padded')
	@$(PY) -m tests.bench.bench_train $(TRAIN_BENCH)

bench-step: setup ## a whole training step against TRL's (STEP_BENCH='--shape study --pairs 1 --lora 8')
	@$(PY) -m tests.bench.bench_train_step $(STEP_BENCH)

bench-gpu: setup ## the learner on this machine's GPU: do its kernels agree, and how fast is it (GPU_BENCH='--profile --results FILE')
	@$(PY) -m tests.bench.bench_gpu $(GPU_BENCH)

COMPILE = .venv/bin/uv pip compile --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 --no-header --no-annotate -q
LOCK = $(COMPILE) pyproject.toml sdk/pyproject.toml --extra cli --no-emit-package envhub --no-emit-package torch
audit: setup ## known vulnerabilities in everything that is locked (asks PyPI)
	@infra/setup/audit.sh audit

sbom: setup ## bills of materials of the images (CycloneDX), into dist/sbom (SBOM_STATUS=DIR: SECURITY.md)
	@infra/setup/audit.sh sbom

lock: ## renew requirements.lock, the images' from it, and those of the tools
	@$(LOCK) --extra train --extra cluster --group dev -o requirements.lock
	@$(LOCK) -c requirements.lock -o infra/docker/hub.lock
	@$(LOCK) -c requirements.lock --extra train --extra cluster -o infra/docker/worker.lock
	@$(COMPILE) infra/setup/tools.in --no-deps -o infra/setup/tools.lock
	@$(COMPILE) infra/setup/audit.in -o infra/setup/audit.lock

lock-images: setup ## pin the images of Dockerfiles, compose.yaml and the chart to what their tags mean now (asks their registries, by skopeo)
	@$(PY) -m infra.supply_chain.lock_images
