"""Every image that others make can be pinned by digest, and is then pulled by it everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra.supply_chain.lock_images import FILES, CannotResolve, lock_images, names_in
from tests.infra.chart.render import containers, render
from tests.infra.test_compose_config import FILLED
from tests.infra.tools import ROOT, TOOLS, needs_tools
from tests.workers.images.registry import local_registry, needs_registry

OURS = re.compile(r"environments-hub(-worker(-gpu)?)?(:[\w.-]+)?")
DIGEST = "sha256:" + 64 * "a"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that name images."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def in_dockerfiles(root: Path) -> set[str]:
    """What each FROM pulls: stages of the file itself are not pulled."""
    found, stages = set(), set()
    for file in (root / "infra/docker").glob("*.Dockerfile"):
        for image, _, stage in re.findall(r"^FROM (\S+)( AS (\S+))?$", file.read_text(), re.MULTILINE):
            found.add(image)
            stages.add(stage)
    return found - stages


def in_compose(root: Path) -> set[str]:
    command = [TOOLS / "docker-compose", "config", "--no-path-resolution"]
    (root / "infra/.env").touch()
    env = {"PATH": "/nowhere", "HOME": str(root), "COMPOSE_PROFILES": "*", "MINIO_USER": "hub"}
    addresses = dict.fromkeys(("HUB_BASE_URL", "HUB_S3_PUBLIC_ENDPOINT_URL"), "https://hub.example.org")
    env |= FILLED | addresses
    done = subprocess.run(command, cwd=root / "infra", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {service["image"] for service in yaml.safe_load(done.stdout)["services"].values()}


def in_chart(root: Path) -> set[str]:
    values = yaml.safe_load((root / "infra/helm/environments-hub/values.yaml").read_text())
    values["hub"], values["storage"] = {}, {}
    parts = {name: {"enabled": True} for name in ("postgres", "redis", "s3")}
    return {one["image"] for _, one, _ in containers(render(values, {"trial": parts}))}


@needs_tools
def test_every_image_is_pulled_by_the_digest_that_is_written_for_it(checkout: Path) -> None:
    places = (in_dockerfiles, in_compose, in_chart)
    before = [{image for image in place(checkout) if not OURS.fullmatch(image)} for place in places]
    assert [len(found) for found in before] == [1, 5, 3]
    pinned = lock_images(checkout, lambda name: DIGEST)
    assert set(pinned) == set.union(*before)
    for place, names in zip(places, before, strict=True):
        after = {image for image in place(checkout) if not OURS.fullmatch(image)}
        assert after == {f"{name}@{DIGEST}" for name in names}
    lock_images(checkout, lambda name: DIGEST.replace("aa", "bb"))
    assert {image[-1] for place in places for image in place(checkout) if not OURS.fullmatch(image)} == {"b"}


def test_a_name_that_no_registry_knows_changes_nothing(checkout: Path) -> None:
    def resolve(name: str) -> str:
        if name.startswith("redis"):
            raise CannotResolve(name)
        return DIGEST

    with pytest.raises(CannotResolve):
        lock_images(checkout, resolve)
    assert all((checkout / file).read_bytes() == (ROOT / file).read_bytes() for file in FILES)


@needs_tools
def test_our_own_images_keep_their_tag_beside_the_digest() -> None:
    image = {"repository": "registry.example.org:5000/hub", "tag": "1.2", "digest": DIGEST}
    images = {one["image"] for _, one, _ in containers(render({"hub": {"image": image}}))}
    assert images == {f"registry.example.org:5000/hub:1.2@{DIGEST}"}


@needs_registry
def test_the_command_asks_the_registries_as_skopeo_is_configured(checkout: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "infra.supply_chain.lock_images", str(checkout)]
    with local_registry(tmp_path) as registry:
        mirror = (
            f'[[registry]]\nlocation = "docker.io"\n[[registry.mirror]]\ninsecure = true\nlocation = "{registry.place}'
        )
        settings = tmp_path / ".config/containers/registries.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'{mirror}/dockerhub"\n')
        env = os.environ | {"HOME": str(tmp_path)}

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

        names = sorted({name for file in FILES for name in names_in((ROOT / file).read_text())})
        for name in names[1:]:
            registry.push(name if "/" in name else f"library/{name}", [])
        failed = run()
        assert (failed.returncode, failed.stdout) == (1, "")
        assert failed.stderr.startswith(f"nothing was changed: {names[0]}: ")
        registry.push(f"library/{names[0]}", [])
        done = run()
        assert done.returncode == 0, done.stderr
        (first, digest) = done.stdout.splitlines()[0].split("@")
        where = f"docker://{registry.place}/dockerhub/library/{first.partition(':')[0]}@{digest}"
        shown = subprocess.run(
            ["skopeo", "inspect", "--tls-verify=false", where], capture_output=True, check=True, text=True
        )
    assert json.loads(shown.stdout)["Digest"] == digest
    assert f"{first}@{digest}" in "".join((checkout / file).read_text() for file in FILES)
