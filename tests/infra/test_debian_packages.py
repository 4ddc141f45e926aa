"""The images' bills of materials name Debian's packages and the base image."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.supply_chain.debian_packages import (
    Debian,
    Resolver,
    base_image,
    component,
    in_status,
    installed_by,
    packages_of,
)
from tests.infra.tools import ROOT
from workers.images.debian_packages import PackagesLacking

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library: Shared libraries
 Status: no field

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1:2

"""
DOCKERFILE = """\
FROM python:3.11-slim-bookworm@sha256:{digest} AS base
RUN apt-get update \\
    && apt-get install -y --no-install-recommends zip \\
       bubblewrap && rm -rf /var/lib/apt/lists/*
RUN apt-get -y install gcc
"""


def test_what_a_dockerfile_installs_is_read_from_all_its_lines() -> None:
    assert installed_by(DOCKERFILE) == ["bubblewrap", "gcc", "zip"]
    worker = (ROOT / "infra/docker/worker.Dockerfile").read_text()
    assert {"bubblewrap", "skopeo", "util-linux"} < set(installed_by(worker))


def test_the_base_image_is_named_with_its_digest_if_it_has_one() -> None:
    made, release = base_image(DOCKERFILE.format(digest="a" * 64))
    assert (made["version"], made["hashes"], release) == (
        "3.11-slim-bookworm",
        [{"alg": "SHA-256", "content": "a" * 64}],
        "bookworm",
    )
    assert base_image("FROM python:3.11-slim-bookworm")[0]["purl"] == "pkg:docker/python@3.11-slim-bookworm"
    with pytest.raises(ValueError, match="Debian"):
        base_image("FROM python:3.11")


def test_only_installed_packages_of_a_built_image_count() -> None:
    assert list(in_status(STATUS)) == [Debian("libc6", "2.36-9+deb12u10", "amd64")]


@pytest.mark.parametrize(
    ("version", "shown"), [("1:2.38.1-5+deb12u3", "1:2.38.1-5%2Bdeb12u3"), ("37~deb12u1", "37~deb12u1")]
)
def test_a_package_has_the_url_that_scanners_look_for(version: str, shown: str) -> None:
    made = component(Debian("mount", version, "amd64", "0f"), "bookworm")
    assert made["purl"] == f"pkg:deb/debian/mount@{shown}?arch=amd64&distro=bookworm"
    assert (made["version"], made["hashes"]) == (version, [{"alg": "SHA-256", "content": "0f"}])


def test_a_host_of_another_release_resolves_nothing(tmp_path: Path) -> None:
    with pytest.raises(PackagesLacking, match="Debian sid"):
        packages_of("worker", DOCKERFILE, "sid", None, Resolver(tmp_path))


@pytest.mark.parametrize("release", ["bookworm", "sid"])
def test_the_command_adds_them_to_every_bill_and_says_where_they_are_from(tmp_path: Path, release: str) -> None:
    """Of sid nothing is known here, and the bill says so."""
    locked = {"bom-ref": "x", "name": "x", "type": "library", "version": "1", "purl": "pkg:pypi/x@1"}
    for image in ("hub", "worker"):
        (tmp_path / f"{image}.cdx.json").write_text(json.dumps({"components": [locked]}))
        (tmp_path / f"{image}.status").write_text(STATUS)
    copy = tmp_path / "checkout"
    for folder in ("infra/docker", "infra/supply_chain"):
        shutil.copytree(ROOT / folder, copy / folder)
    (copy / "infra/__init__.py").touch()
    for file in (copy / "infra/docker").glob("*.Dockerfile"):
        file.write_text(file.read_text().replace("bookworm", release))
    command = [sys.executable, "-m", "infra.supply_chain.debian_packages", str(tmp_path)]
    command += ["--status", str(tmp_path)] if release == "bookworm" else []
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("NOT LISTED" in done.stderr) == (release == "sid")
    bom: dict[str, Any] = json.loads((tmp_path / "worker.cdx.json").read_text())
    found = {one["purl"] for one in bom["components"]}
    debian = {f"pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro={release}"} if release == "bookworm" else set()
    assert found == {"pkg:pypi/x@1", f"pkg:docker/python@3.11-slim-{release}"} | debian
    (told,) = bom["metadata"]["properties"]
    assert told["value"].startswith("dpkg's status" if release == "bookworm" else "not listed: this host")
