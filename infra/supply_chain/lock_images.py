"""`make lock-images`: writes the digest behind each tag into the Dockerfiles, compose.yaml and the chart's values.

`postgres:17` becomes `postgres:17@sha256:...`, which Docker, Compose and Kubernetes pull by digest. Run again, it moves
to what the tag means by then. skopeo asks the registries, with the mirrors and credentials that it is configured for.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "infra/docker/hub.Dockerfile",
    "infra/docker/worker.Dockerfile",
    "infra/compose.yaml",
    "infra/helm/environments-hub/values.yaml",
)
# Images of this project have no tag there: `environments-hub` in compose.yaml, and stages of a Dockerfile.
NAMED = re.compile(
    r"""(?P<before>(?:^FROM|\bimage:)\s+"?)(?P<name>[a-z0-9][\w./-]*(?::\d+/[\w./-]+)?:\w[\w.-]*)(?:@sha256:[0-9a-f]{64})?""",
    re.MULTILINE,
)
SECONDS = 120


class CannotResolve(Exception):
    """A registry does not say what a tag means; the message is for the operator."""


def names_in(text: str) -> list[str]:
    """The images that a file names, as `repository:tag`."""
    return [found["name"] for found in NAMED.finditer(text)]


def pin(text: str, digests: Mapping[str, str]) -> str:
    """The file with these digests instead of those that it has. Raises KeyError for a name without one."""
    return NAMED.sub(lambda found: f"{found['before']}{found['name']}@{digests[found['name']]}", text)


def digest_of(name: str) -> str:
    """The digest of what `name` means now, of all platforms together. Raises CannotResolve."""
    command = ["skopeo", "inspect", "--raw", f"docker://{name}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except FileNotFoundError as error:
        raise CannotResolve("skopeo is missing: apt-get install skopeo") from error
    except subprocess.TimeoutExpired as error:
        raise CannotResolve(f"{name}: its registry does not answer within {SECONDS} s") from error
    if done.returncode:
        raise CannotResolve(f"{name}: {done.stderr.decode(errors='replace').strip()}")
    return f"sha256:{hashlib.sha256(done.stdout).hexdigest()}"


def lock_images(root: Path, resolve: Callable[[str], str]) -> dict[str, str]:
    """Pin every image below `root`; return their digests. Raises CannotResolve before it has written anything."""
    texts = {root / file: (root / file).read_text() for file in FILES}
    digests = {name: resolve(name) for name in sorted({name for text in texts.values() for name in names_in(text)})}
    for path, text in texts.items():
        path.write_text(pin(text, digests))
    return digests


def main() -> int:
    """Lock the images of this checkout, or of the one that is named."""
    try:
        digests = lock_images(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT, digest_of)
    except CannotResolve as error:
        print(f"nothing was changed: {error}", file=sys.stderr)
        return 1
    for name, digest in digests.items():
        print(f"{name}@{digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
