"""Tasks that each name an image: what a version lacks is known from its build, and a run needs only what it uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from envhub.protocol.registry.needs import NeedKind

from tests.e2e.package_runs import PACKAGES, says
from tests.e2e.stack import Stack
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
IMAGE = "registry.example.org/e2e/named:20251031"


def test_a_run_needs_the_images_of_its_examples_alone(stack: Stack, tmp_path: Path) -> None:
    place = tmp_path / "rows-named"
    shutil.copytree(PACKAGES / "e2e-harbor", place)
    for dockerfile in place.glob("tasks/*/environment/Dockerfile"):
        dockerfile.unlink()
    project = place / "pyproject.toml"
    project.write_text(project.read_text().replace("e2e-harbor", "rows-named").replace("e2e_harbor", "rows_named"))
    (place / "e2e_harbor.py").rename(place / "rows_named.py")
    version = stack.wait_ready(stack.push(place))
    assert [(need.kind, need.name, need.detail) for need in version.needs] == [
        (NeedKind.SANDBOX, IMAGE, "the first example that needs it is 1")
    ]
    asked = ("eval", "run", "rows-named", "-m", stack.register(PolicyEndpoint(answer=says("42"))), "-r", "1")
    refused = stack.cli(*asked, "-n", "2", code=None)
    assert refused.code, refused
    assert f"need images that cannot be had: {IMAGE}" in refused.err
    assert "the first needs none of them" in refused.err
    stack.cli(*asked, "-n", "1", "--no-wait")
    (tmp_path / "root/etc").mkdir(parents=True)
    stack.cli("image", "add", IMAGE, str(tmp_path / "root"))
    stack.cli(*asked, "-n", "2", "--no-wait")
