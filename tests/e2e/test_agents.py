"""Coding agents as verifiers ships them work in sandboxes: installed from the package indexes, their turns recorded;
the second time without a network.

They install hundreds of packages, the first time for a minute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.endpoints import in_thread
from tests.e2e.package_runs import PACKAGES
from tests.e2e.stack import Stack
from tests.fakes.policy_endpoint import Answer, PolicyEndpoint, sampled
from tests.workers.npm_registry import stand_ins
from workers.index.npm import operator_registry

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
WRITE = "echo 42 > /tmp/answer"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # how mini-SWE-agent is told that it is over
SHELLS = {"bash": "command", "Bash": "command", "shell_command": "command", "exec_command": "cmd"}


def uses_its_shell(then: str = "", write: str = WRITE, **more: str) -> Callable[[dict[str, Any]], Answer]:
    """A model that writes the file by whatever tool the agent calls a shell; then it answers, or runs `then`.
    `more` are further arguments that the tool wants."""

    def answer(body: dict[str, Any]) -> Answer:
        tools = [tool["function"]["name"] for tool in body["tools"]]
        shell = next(name for name in tools if name in SHELLS)
        done = any(message["role"] == "tool" for message in body["messages"])
        if done and not then:
            return Answer("It is 42.")
        return Answer("", tool_calls=((shell, json.dumps({SHELLS[shell]: then if done else write} | more)),))

    return answer


NO_INDEXES = {
    "WORKER_PACKAGE_INDEX_URL": "http://127.0.0.1:9/simple/",
    "PIP_CONFIG_FILE": "/dev/null",  # where archives beside an index may be named
    "npm_config_registry": "http://127.0.0.1:9/",
}
AGENTS = {"mini_swe_agent": SUBMIT, "codex": "", "claude_code": "", "pi": ""}
# npm packages of which verifiers pins a release that not every registry has: there another one stands in for it
STAND_INS = {"pi-acp": ("0.0.33", "0.0.34"), "pi-mcp-adapter": ("2.34.0", "2.36.0")}


@pytest.fixture(scope="module")
def stack(stack: Stack) -> Iterator[Stack]:
    """With the packages that the agents pin."""
    with in_thread(stand_ins(operator_registry(), STAND_INS)) as url, stack.restarted(npm_config_registry=url):
        yield stack


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_writes_a_file_and_again_without_package_indexes(stack: Stack, agent: str) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-agent"))
    assert all(check.passed for check in version.checks), version.checks
    asked = ("e2e-agent", "--harness", json.dumps({"id": agent}))
    check_rollout(stack, uses_its_shell(AGENTS[agent]), *asked)
    with stack.restarted(**NO_INDEXES):
        check_rollout(stack, uses_its_shell(AGENTS[agent]), *asked)


def test_opencode_of_the_legacy_generation_too(stack: Stack) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-cli-agents"))
    assert all(check.passed for check in version.checks), version.checks
    script = uses_its_shell(description="Writes the answer")
    check_rollout(stack, script, "e2e-cli-agents")
    with stack.restarted(**NO_INDEXES):
        check_rollout(stack, script, "e2e-cli-agents")


RELEASE = """\
v=$(curl -fsSL https://opencode.ai/install | sed -n 's/^version=.*:-\\(.*\\)}"$/\\1/p')
curl -fsSL https://github.com/anomalyco/opencode/releases/download/v$v/opencode-linux-x64.tar.gz -o /tmp/archive
echo "$v $(sha256sum < /tmp/archive)"
"""


def test_opencode_on_harbors_tasks_of_which_one_has_no_image_here(stack: Stack) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-opencode-harbor"))
    assert [need.words for need in version.needs] == ["sandbox registry.example.org/e2e/base:1"], version.checks
    number, sha256, _ = stack.cli("sandbox", "run", "--", "sh", "-c", RELEASE).out.split()
    release = {"release_repo": "anomalyco/opencode", "release_version": number, "release_sha256": sha256}
    asked = ("e2e-opencode-harbor", "--harness", json.dumps(release))
    refused = stack.cli("eval", "run", "e2e-opencode-harbor", "-m", stack.register(PolicyEndpoint()), code=1).err
    assert "registry.example.org/e2e/base:1" in refused
    script = uses_its_shell(write="echo 42 > /app/answer.txt", description="Writes the answer")
    check_rollout(stack, script, *asked, "--taskset", '{"task_names": ["greet"]}')


LACKING = {  # of what no package index has
    "OpenCode": "file https://github.com/PrimeIntellect-ai/opencode/releases/download/v1.1.63-rl2/opencode-linux-x64.tar.gz",
    "RLM": "clone host github.com",
}


@pytest.mark.parametrize("agent", LACKING)
def test_what_an_agent_lacks_is_a_need_of_its_version(stack: Stack, agent: str) -> None:
    owner = stack.as_user(f"lacks-{agent.lower()}")  # what a version is checked with stays with it
    owner.wait_ready(owner.push(PACKAGES / "e2e-cli-agents"))
    owner.cli("env", "check", "e2e-cli-agents", "--env-args", json.dumps({"agent": agent}), code=None)
    with owner.client() as hub:
        version = hub.environments.version(f"{owner.user}/e2e-cli-agents")
    assert [need.words for need in version.needs] == [LACKING[agent]], version.checks
    refused = owner.cli("eval", "run", "e2e-cli-agents", "-m", owner.register(PolicyEndpoint()), "-n", "1", code=1).err
    assert LACKING[agent] in refused


CHOSEN = {  # of a harness that no check has had
    json.dumps({"id": "rlm"}): LACKING["RLM"],
    json.dumps({"id": "pi", "version": "0.0.1"}): "npm package @earendil-works/pi-coding-agent@0.0.1",
}


@pytest.mark.parametrize("harness", CHOSEN)
def test_what_a_harness_lacks_that_only_the_evaluation_chooses_is_named_before_a_rollout(
    stack: Stack, harness: str
) -> None:
    stack.wait_ready(stack.push(PACKAGES / "e2e-agent"))
    endpoint = PolicyEndpoint()
    asked = ("e2e-agent", "--harness", harness, "-m", stack.register(endpoint), "-n", "1")
    failed = stack.cli("eval", "run", *asked, code=1)
    assert f"e2e-agent@0.1.0 with this harness needs {CHOSEN[harness]}" in failed.err, failed
    assert endpoint.requests == []


def check_rollout(stack: Stack, script: Callable[[dict[str, Any]], Answer], *asked: str) -> None:
    endpoint = PolicyEndpoint(answer=script)
    model = ("-m", stack.register(endpoint), "-n", "1", "-r", "1")
    view = stack.cli("eval", "run", *asked, *model, "--json", code=None).json
    with stack.client() as hub:
        record = hub.evaluations.rollout(view["id"], 0, 0)
    assert record.reward == 1.0, (record.failure, record.sandboxes)
    assert len(record.turns) == len(endpoint.requests) == 2
    for turn, seen in zip(record.turns, endpoint.requests, strict=True):
        assert turn.tokens is not None
        assert list(turn.tokens.completion_ids) == sampled(script(seen.body))
