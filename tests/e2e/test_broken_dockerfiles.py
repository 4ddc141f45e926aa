"""Dockerfiles that are broken on purpose: what a version lacks, or why its image is not built, is told when it is
checked; a worker that is killed while it builds costs a retry.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.registry.packages import Check, VersionState, VersionView

from infra.demo.processes import Role, kill
from tests.e2e.package_runs import PACKAGES
from tests.e2e.stack import Stack, wait_until

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
BASE = "registry.example.org/e2e/base:1"


def package(folder: Path, name: str, dockerfile: str) -> Path:
    """The package of test_dockerfiles.py with one task, and another Dockerfile."""
    place = folder / name
    shutil.copytree(PACKAGES / "e2e-harbor", place)
    shutil.rmtree(place / "tasks/named")
    project, module = place / "pyproject.toml", name.replace("-", "_")
    project.write_text(project.read_text().replace("e2e-harbor", name).replace("e2e_harbor", module))
    (place / "e2e_harbor.py").rename(place / f"{module}.py")
    (place / "tasks/greet/environment/Dockerfile").write_text(dockerfile)
    return place


def check_of(version: VersionView) -> Check:
    assert version.state is VersionState.READY
    return next(check for check in version.checks if check.name == "images")


@pytest.mark.parametrize(
    ("name", "dockerfile", "summary"),
    [
        ("df-syntax", "FROM python:3.11-slim\nCPOY a b\n", "line 2: CPOY is not supported"),
        ("df-fails", "FROM python:3.11-slim\nRUN echo because >&2; exit 9\n", "line 2: .* it ended with status 9"),
        ("df-fills", "FROM python:3.11-slim\nRUN cat /dev/zero > /full\n", "line 2: .* it ended with status 1"),
        ("df-copies", "FROM python:3.11-slim\nCOPY ../../../x /x\n", "line 2: .*leads upwards"),
    ],
)
def test_why_an_image_is_not_built(stack: Stack, tmp_path: Path, name: str, dockerfile: str, summary: str) -> None:
    check = check_of(stack.wait_ready(stack.push(package(tmp_path, name, dockerfile))))
    assert not check.passed
    assert re.search(summary, check.summary), check


def test_an_address_that_a_step_reads_is_a_need(stack: Stack, tmp_path: Path) -> None:
    text = "FROM python:3.11-slim\nRUN curl -fsSL https://files.example.org/words.txt -o /words\n"
    version = stack.wait_ready(stack.push(package(tmp_path, "df-file", text)))
    assert [(need.kind, need.name) for need in check_of(version).needs] == [
        (NeedKind.FILE, "https://files.example.org/words.txt")
    ]


def test_a_base_that_is_lacking_is_a_need_that_its_command_meets(stack: Stack, tmp_path: Path) -> None:
    text = f"FROM {BASE}\nCOPY agent.py /opt/agent/\n"
    version = stack.wait_ready(stack.push(package(tmp_path, "df-base", text)))
    assert [(need.kind, need.name) for need in check_of(version).needs] == [(NeedKind.SANDBOX, BASE)]
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/made").write_text("by hand")
    token = stack.make_token("admin", "read,write,admin")
    stack.cli("image", "add", BASE, str(root), "--everybody", HUB_TOKEN=token)

    def is_checked() -> bool:
        with stack.client() as hub:
            again = hub.environments.version(f"{version.owner}/{version.name}", version.version)
        return check_of(again).passed

    wait_until(is_checked, 120, stack.log_tail)


def test_a_worker_that_is_killed_while_it_builds(stack: Stack, tmp_path: Path) -> None:
    new = uuid4().hex  # else it is kept from the last time
    text = f"FROM python:3.11-slim\nRUN echo {new} > /first\nCOPY agent.py /opt/\nRUN sleep 10; echo two > /second\n"
    version = stack.push(package(tmp_path, "df-killed", text))
    run_id = version.build_run_id
    assert run_id is not None
    wait_until(lambda: "step 3/3" in stack.run_log(run_id), 300, stack.log_tail)
    assert kill(stack.pids(Role.BUILD_RUN))
    check = check_of(stack.wait_ready(version))
    assert check.passed, check
    assert "kept from an earlier build" in stack.run_log(run_id)
