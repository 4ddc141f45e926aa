"""Adds Debian's packages and the base image to an image's bill of materials (`make sbom`, which makes it of the lock).

By default these are Debian's essential packages, those that the Dockerfile's `apt-get install` names, and what they
depend on, as apt resolves them now with nothing installed. That needs a host of the base image's release of Debian.
`--status` takes instead what built images really have.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from workers.images.debian_packages import Apt, PackagesLacking

ROOT = Path(__file__).resolve().parents[2]
ALWAYS = ("?essential", "apt")
BASE = re.compile(
    r"^FROM (?P<name>\S+):(?P<tag>(?:[\w.]+-)+(?P<release>[a-z]+))(?:@sha256:(?P<digest>\w+))?", re.MULTILINE
)
INSTALL = re.compile(r"\bapt-get (?:-\S+ )*install (?P<arguments>[^&|;\n]+)")
Component = dict[str, Any]


class Debian(NamedTuple):
    """One package. sha256: of its .deb, "" if unknown."""

    name: str
    version: str
    architecture: str
    sha256: str = ""


def installed_by(dockerfile: str) -> list[str]:
    """The packages that its `apt-get install` lines name."""
    joined = dockerfile.replace("\\\n", " ")
    words = (word for found in INSTALL.finditer(joined) for word in found["arguments"].split())
    return sorted({word for word in words if not word.startswith("-")})


class Resolver:
    """apt, whose lists are fetched once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._apt: Apt | None = None

    def resolve(self, names: Sequence[str], release: str) -> list[Debian]:
        """These, essential packages, and their dependencies. Raises PackagesLacking, also on another release."""
        host = platform.freedesktop_os_release()
        if (host["ID"], host.get("VERSION_CODENAME")) != ("debian", release):
            raise PackagesLacking(
                f"this host is {host.get('PRETTY_NAME', host['ID'])}, the images are Debian {release}"
            )
        if self._apt is None:
            self._apt = Apt(self._folder)
            self._apt.begin()
        found = self._apt.resolve([*ALWAYS, *names])
        parts = ((*one.file.removesuffix(".deb").split("_"), one.sha256) for one in found)
        return [Debian(name, unquote(version), architecture, sha256) for name, version, architecture, sha256 in parts]


def in_status(text: str) -> Iterator[Debian]:
    """The installed packages of a dpkg status file."""
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            yield Debian(fields["Package"], fields["Version"], fields["Architecture"])


def component(package: Debian, release: str) -> Component:
    """As CycloneDX writes it."""
    version = quote(package.version, safe=":~")
    purl = f"pkg:deb/debian/{package.name}@{version}?arch={package.architecture}&distro={release}"
    made = {"bom-ref": purl, "name": package.name, "purl": purl, "type": "library", "version": package.version}
    return made | ({"hashes": [{"alg": "SHA-256", "content": package.sha256}]} if package.sha256 else {})


def base_image(dockerfile: str) -> tuple[Component, str]:
    """What it is built from, and that image's release of Debian. Raises ValueError if its tag does not tell it."""
    found = BASE.search(dockerfile)
    if found is None:
        raise ValueError("no FROM names an image whose tag ends with a release of Debian")
    name, tag, digest = found["name"], found["tag"], found["digest"]
    purl = f"pkg:docker/{name}@{f'sha256:{digest}' if digest else tag}"
    made = {"bom-ref": purl, "name": name, "purl": purl, "type": "container", "version": tag}
    return made | ({"hashes": [{"alg": "SHA-256", "content": digest}]} if digest else {}), found["release"]


def add(bom: dict[str, Any], components: Iterable[Component], source: str) -> None:
    """Put components into a bill of materials, with a property that says where Debian's packages are from."""
    bom["components"] = sorted([*bom["components"], *components], key=lambda one: str(one["bom-ref"]))
    bom["dependencies"] = sorted(
        [*bom.get("dependencies", ()), *({"ref": one["bom-ref"]} for one in components)],
        key=lambda one: str(one["ref"]),
    )
    properties = bom.setdefault("metadata", {}).setdefault("properties", [])
    properties.append({"name": "environments-hub:debian-packages", "value": source})


def packages_of(
    image: str, dockerfile: str, release: str, status: Path | None, apt: Resolver
) -> tuple[list[Debian], str]:
    """The packages of an image, and where they are from. Raises PackagesLacking."""
    if status is not None:
        return list(in_status((status / f"{image}.status").read_text())), "dpkg's status of the built image"
    found = apt.resolve(installed_by(dockerfile), release)
    return found, "resolved by apt: essential packages, those that the Dockerfile names, and their dependencies"


def main() -> int:
    """Rewrite the bills of materials, and print how many packages each got."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="with IMAGE.cdx.json")
    parser.add_argument("--status", type=Path, help="a folder with IMAGE.status, /var/lib/dpkg/status of a built image")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        apt = Resolver(Path(folder))
        for bom in sorted(arguments.folder.glob("*.cdx.json")):
            image = bom.name.removesuffix(".cdx.json")
            dockerfile = (ROOT / f"infra/docker/{image}.Dockerfile").read_text()
            base, release = base_image(dockerfile)
            try:
                packages, source = packages_of(image, dockerfile, release, arguments.status, apt)
                print(f"{bom}: {len(packages)} Debian packages ({source})")
            except PackagesLacking as error:
                packages, source = [], f"not listed: {error}"
                print(f"{bom}: Debian packages are NOT LISTED: {error}", file=sys.stderr)
            content = json.loads(bom.read_text())
            add(content, [base, *(component(package, release) for package in packages)], source)
            bom.write_text(json.dumps(content, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
