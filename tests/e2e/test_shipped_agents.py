"""Agents of others as verifiers ships them, on tasks whose own tests score them: they install themselves in sandboxes
and work there; the second time without a network.

What stands in for servers that not every machine reaches: repositories come by HUB_GIT_MIRRORS from a git server here,
and the image that the tasks name has the Python that Terminus wants, as hub/base has none. Terminus is a harness here:
terminus_harbor of verifiers 0.1.14 itself fails with every release of Harbor, whose contexts have no `tokens_used`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import RolloutRecord

from tests.e2e.endpoints import in_thread
from tests.e2e.others_repositories import GITHUB, cloned
from tests.e2e.package_runs import PACKAGES, Script
from tests.e2e.stack import Stack, running_stack
from tests.fakes.policy_endpoint import Answer, PolicyEndpoint
from tests.workers.git_server import GitServer
from workers.venvs.interpreters import present

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
RLM_TASKS = "environments/rlm_swe_v1"  # of verifiers 0.1.14
IMAGE = "python:3.11-slim"  # that the tasks name
PYTHON = "3.12"
DOCKERFILE = """\
FROM hub/base
COPY python {prefix}
RUN ln -s {prefix}/bin/python3.12 /usr/local/bin/ && echo {prefix}/lib > /etc/ld.so.conf.d/python.conf && ldconfig
"""  # at its own place: virtual environments look for it there
NOWHERE = "http://127.0.0.1:9"
NO_NETWORK = {
    "WORKER_PACKAGE_INDEX_URL": f"{NOWHERE}/simple/",
    "PIP_CONFIG_FILE": "/dev/null",
    "npm_config_registry": f"{NOWHERE}/",
    "HUB_GIT_MIRRORS": json.dumps({GITHUB: f"{NOWHERE}/"}),
    "http_proxy": NOWHERE,  # that apt's archives are asked by
    "https_proxy": NOWHERE,
    "no_proxy": "127.0.0.1,localhost",
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests lay repositories, each below its name."""
    return tmp_path_factory.mktemp("sources")


@pytest.fixture(scope="module")
def stack(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A hub of its own: what is added to it is for nobody else."""
    with in_thread(GitServer(sources).serve()) as server:
        mirrors = {f"{GITHUB}PrimeIntellect-ai/rlm-harness.git": f"{server.url}/rlm-harness"}
        settings = {"HUB_CLONE_HOSTS": '["github.com"]', "HUB_GIT_MIRRORS": json.dumps(mirrors)}
        with running_stack(tmp_path_factory.mktemp("hub"), settings) as running:
            yield running


def test_terminus_2_on_a_harbor_task(stack: Stack, tmp_path: Path) -> None:
    add_image_with_python(stack, tmp_path)
    check_twice(stack, PACKAGES / "e2e-harbor-tasks", writes_by_keys, "--harness", '{"id": "terminus_2"}')


def test_rlm_on_a_harbor_task(stack: Stack, sources: Path) -> None:
    cloned("PrimeIntellect-ai/verifiers", sources, "v0.1.14", RLM_TASKS)
    cloned("PrimeIntellect-ai/rlm-harness", sources)
    check_twice(stack, sources / "verifiers" / RLM_TASKS, writes_by_python)


def writes_by_keys(body: dict[str, Any]) -> Answer:
    """A model that types a command into Terminus's terminal, says that it is done, and says so again."""
    again = len(body["messages"]) > 1
    commands = [] if again else [{"keystrokes": "echo 42 > /tmp/answer\n", "duration": 0.5}]
    return Answer(json.dumps({"analysis": "-", "plan": "-", "commands": commands, "task_complete": True}))


def writes_by_python(body: dict[str, Any]) -> Answer:
    """A model that writes the file by RLM's tool."""
    if any(message["role"] == "tool" for message in body["messages"]):
        return Answer("It is written.")
    code = "open('/app/answer.txt', 'w').write('verifiers-v1')"
    return Answer("", tool_calls=(("ipython", json.dumps({"code": code})),))


def check_twice(stack: Stack, package: Path, script: Script, *asked: str) -> None:
    version = stack.wait_ready(stack.push(package))
    assert all(check.passed for check in version.checks), version.checks
    check_rollout(rolled_out(stack, version.name, script, *asked))
    with stack.restarted(**NO_NETWORK):
        check_rollout(rolled_out(stack, version.name, script, *asked))


def rolled_out(stack: Stack, name: str, script: Script, *asked: str) -> RolloutRecord:
    model = stack.register(PolicyEndpoint(answer=script))
    view = stack.cli("eval", "run", name, "-m", model, "-n", "1", "-r", "1", *asked, "--json", code=None).json
    with stack.client() as hub:
        return hub.evaluations.rollout(view["id"], 0, 0)


def check_rollout(record: RolloutRecord) -> None:
    assert record.reward == 1.0, (record.failure, record.sandboxes)
    assert len(record.turns) == 2
    assert all(turn.tokens is not None for turn in record.turns)


def add_image_with_python(stack: Stack, folder: Path) -> None:
    """Build the image that tasks name, with the Python that Terminus wants."""
    python = next((one for one in present() if one.short == PYTHON), None)
    if python is None:
        pytest.skip(f"Terminus wants Python {PYTHON}, which this host has not")
    unused = shutil.ignore_patterns("test", "site-packages", "__pycache__", "config-3*", "*.a", "share", "include")
    shutil.copytree(python.prefix, folder / "python", symlinks=True, ignore=unused)
    (folder / "Dockerfile").write_text(DOCKERFILE.format(prefix=python.prefix))
    admin = stack.make_token("admin", "read,write,admin")
    stack.cli("image", "build", IMAGE, str(folder), "--everybody", HUB_TOKEN=admin)
