"""Two owners' runs on one worker, at the same time, each with a sandbox: neither sees anything of the other.

What is looked for is told by the model, which knows all of both. Each also looks for its own, and finds it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.runs import RunState

from infra.demo.processes import Role
from tests.e2e import neighbour_packages
from tests.e2e.places import Place, check_nothing_left
from tests.e2e.stack import Stack
from tests.factories.packages import write_package
from tests.fakes.policy_endpoint import Answer, Body, PolicyEndpoint, message_text

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
OWNERS = ("alice", "robert")
EVERY_TRACE = {
    "processes", "files", "abstract socket", "watch", "lock", "port", "sockets", "shared memory", "mounts", "addresses",
}  # fmt: skip


@dataclass
class Board:
    """What the owners have told their models."""

    facts: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def model(self, owner: str, other: str) -> Callable[[Body], Answer | str]:
        """Plant, then look for the other's and for its own, and stay until the other has looked."""

        def answer(body: Body) -> Answer | str:
            told = [message_text(message["content"]) for message in body["messages"] if message["role"] == "tool"]
            steps = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
            if told and not told[-1].startswith("{"):
                return f"it failed: {told[-1]}"
            last = json.loads(steps[-1]["function"]["arguments"]) if steps else {}
            if last.get("step") == "plant":
                self.facts[owner] = json.loads(told[-1])
            if last.get("step") == "look":
                found = self.own if json.loads(last["argument"]) == self.facts[owner] else self.others
                found[owner] = json.loads(told[-1])
            return self.next(owner, other)

        return answer

    def next(self, owner: str, other: str) -> Answer | str:
        if owner not in self.facts:
            return call("plant", owner)
        if other not in self.facts:
            return call("wait")
        if owner not in self.others:
            return call("look", json.dumps(self.facts[other]))
        if owner not in self.own:
            return call("look", json.dumps(self.facts[owner]))
        return "done" if other in self.others else call("wait")


def call(step: str, argument: str = "") -> Answer:
    return Answer("", tool_calls=(("meet", json.dumps({"step": step, "argument": argument})),))


def push(stack: Stack, folder: Path, owner: str) -> str:
    source = neighbour_packages.SOURCE
    version = stack.wait_ready(stack.push(write_package(folder, f"e2e-{owner}", source=source, dependencies=NEEDED)))
    assert not version.failure
    return f"{version.owner}/{version.name}"


NEEDED = ("verifiers>=0.1.8,<0.1.15", "prime-sandboxes")


def test_neither_sees_anything_of_the_other(place: Place, tmp_path: Path) -> None:
    board, begun = Board(), []
    stacks = [place.stack.as_user(owner) for owner in OWNERS]
    names = [push(stack, tmp_path, stack.user) for stack in stacks]
    assert len(place.stack.pids(Role.HOST)) == 1
    for stack, name, other in zip(stacks, names, reversed(OWNERS), strict=True):
        model = stack.register(PolicyEndpoint(answer=board.model(stack.user, other)))
        config = EvaluationConfig(
            environment=name, model=model, num_examples=1, rollouts_per_example=1, timeout_s=1200, max_retries=0
        )
        begun.append(stack.evaluate(config))
    for stack, evaluation in zip(stacks, begun, strict=True):
        view = stack.finished(evaluation.id, 1800)
        assert view.state is RunState.SUCCEEDED, stack.run_log(view.run_id or "")[-3000:]
    assert set(board.others) == set(OWNERS), board
    for owner in OWNERS:
        assert not {where: what for where, what in board.others[owner].items() if what}
        own = board.own[owner]
        assert own["box from the box"].keys() >= EVERY_TRACE, own
        assert own["sandbox from the sandbox"].keys() >= EVERY_TRACE, own
        assert own["sandbox by its id"] == "reached\n"
    check_nothing_left(place)
    kept = Path(place.stack.settings["WORKER_DATA"])
    searched = subprocess.run(["find", "-L", kept, "-name", "*secret-of-*"], capture_output=True, text=True)
    assert searched.stdout == ""
