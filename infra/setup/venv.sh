#!/usr/bin/env bash
# Makes .venv from the hashed lock, adds torch's CPU build, installs the project editable. Quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 2; }
stamp=.venv/.stamp
want=$(cat requirements.lock pyproject.toml sdk/pyproject.toml infra/torch-constraints.txt infra/setup/venv.sh | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then exit 0; fi
[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
[ -x .venv/bin/uv ] || .venv/bin/pip install --quiet --disable-pip-version-check "uv>=0.9"
export VIRTUAL_ENV=$PWD/.venv
uv=.venv/bin/uv
echo "installing the locked packages ..."
$uv pip install --quiet --require-hashes -r requirements.lock
# torch: a wheel in pip's find-links wins (offline machines), else the CPU build of uv's torch backend.
links=$(infra/setup/find_links.sh)
if [ -n "$links" ] && ls "$links"/torch-*.whl >/dev/null 2>&1; then
    $uv pip install --quiet --find-links "$links" -c infra/torch-constraints.txt torch
else
    $uv pip install --quiet --torch-backend=cpu -c infra/torch-constraints.txt torch
fi
$uv pip install --quiet --no-deps -e ./sdk -e .
.venv/bin/python -m compileall -q hub workers sdk/envhub || true
# Bytecode of what they import: otherwise all processes of a first start compile it at the same time.
scratch=$(mktemp -d)
warm() { env -u PYTHONDONTWRITEBYTECODE HUB_DATA="$scratch" DJANGO_SETTINGS_MODULE=hub.config.settings .venv/bin/python -c "import $1" || true; }
warm hub.config.asgi,workers.celery,workers.tasks.host,envhub.cli.main &
warm workers.training.tiny.__main__,workers.inference.torch_engine.serving,workers.training.learner.start
wait
rm -rf "$scratch"
echo "$want" > "$stamp"
