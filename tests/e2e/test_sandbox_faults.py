"""Whatever is killed while rollouts use sandboxes: each rollout ends right, once, and nothing of a sandbox is left."""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import RunState

from infra.demo.processes import Role, kill, processes_of
from tests.e2e import reversing
from tests.e2e.package_runs import PACKAGES, calls
from tests.e2e.stack import Stack, wait_until
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
EXAMPLES, ROLLOUTS, AT_ONCE = 2, 20, 6
TOTAL = EXAMPLES * ROLLOUTS
WORKS = "head -c 20000000 /dev/zero > /tmp/big; sleep 0.5; echo 42 > /tmp/answer"
IN_SANDBOX = "/run/envhub/python/"  # of the command line of what a box on an image starts
SHARES = (0.0, 0.3, 0.6)


@pytest.fixture(scope="module")
def environment(stack: Stack) -> str:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-sandbox"))
    assert not version.failure
    return f"{version.owner}/{version.name}"


def start(stack: Stack, environment: str, works: str = WORKS, rollouts: int = ROLLOUTS) -> EvaluationView:
    model = stack.register(PolicyEndpoint(answer=calls("bash", {"command": works}, "it is 42"), latency_s=0.2))
    return stack.evaluate(
        EvaluationConfig(
            environment=environment, model=model, num_examples=EXAMPLES, rollouts_per_example=rollouts,
            concurrency=AT_ONCE, timeout_s=120, max_retries=5,
        )
    )  # fmt: skip


def sandboxes(stack: Stack) -> list[int]:
    """The outer bwrap of each, whose end nobody inside can bring about by a signal."""
    inner_and_outer = {
        process.pid: process.parent
        for process in processes_of(stack.data)
        if process.command[:1] == ("bwrap",) and any(IN_SANDBOX in word for word in process.command)
    }
    return [pid for pid, parent in inner_and_outer.items() if parent not in inner_and_outer]


def of_role(role: Role) -> Callable[[Stack], list[int]]:
    return lambda stack: stack.pids(role)


VICTIMS: dict[str, Callable[[Stack], list[int]]] = {
    "sandbox": sandboxes,
    "runner": of_role(Role.RUNNER),
    "run": of_role(Role.EVAL_RUN),
    "host": of_role(Role.HOST),
    "worker": of_role(Role.WORKER),
    "web": of_role(Role.WEB),
}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("victim", VICTIMS)
def test_killing_what_holds_a_sandbox(stack: Stack, environment: str, victim: str, share: float) -> None:
    evaluation = start(stack, environment)
    wait_until(lambda: bool(sandboxes(stack)), 120, stack.log_tail, 0.02)
    if share:
        reversing.await_stored(stack, evaluation.id, beyond=int(share * TOTAL))
    wait_until(lambda: bool(kill(VICTIMS[victim](stack))), 60, lambda: f"there is no {victim}", 0.02)
    view = stack.finished(evaluation.id)
    check_complete(stack, view)
    check_nothing_left(stack)


def test_those_that_live_are_shown_and_what_a_person_ends_is_tried_again(stack: Stack, environment: str) -> None:
    view = start(stack, environment, f"sleep 8; {WORKS}", rollouts=2)
    run_id = view.run_id or ""
    with stack.client() as hub:
        wait_until(lambda: any(one.commands for one in hub.runs.sandboxes(run_id).items), 120, stack.log_tail)
        shown = hub.runs.sandboxes(run_id).items
        assert all(one.rollout.startswith("example ") and one.image == "python:3.11-slim" for one in shown)
        assert any(one.memory_bytes for one in shown)
        hub.runs.end_sandbox(run_id, shown[0].id)
        wait_until(lambda: f"ends the sandbox {shown[0].id}" in stack.run_log(run_id), 30, stack.log_tail)
        check_complete(stack, stack.finished(view.id), rollouts=2)
        assert hub.runs.sandboxes(run_id).living == 0
    check_nothing_left(stack)


def check_complete(stack: Stack, view: EvaluationView, rollouts: int = ROLLOUTS) -> None:
    assert view.state is RunState.SUCCEEDED, stack.run_log(view.run_id or "")[-3000:]
    rows = stack.rollouts(view.id)
    planned = {(example, rollout) for example in range(EXAMPLES) for rollout in range(rollouts)}
    assert Counter((row.example, row.rollout) for row in rows) == Counter(planned)
    assert {(row.outcome, row.reward) for row in rows} == {(Outcome.OK, 2.0)}


def check_nothing_left(stack: Stack) -> None:
    """Neither processes nor files, control groups or tickets."""
    data = Path(stack.settings["WORKER_DATA"])
    wait_until(lambda: not sandboxes(stack), 30, lambda: "a sandbox outlived its run")
    wait_until(lambda: not boxes(data), 60, lambda: f"left: {boxes(data)}")
    assert "/boxes/" not in Path("/proc/self/mountinfo").read_text()
    assert all(is_free(ticket) for ticket in (data / "sandbox-tickets" / "living").iterdir())


def boxes(data: Path) -> list[str]:
    """Records and sockets of boxes. An empty folder is swept ten minutes after who removed a box was killed."""
    own = [path for path in (data / "boxes" / "boxes").rglob("*") if path.is_file()]
    return [str(path) for path in (*own, *(data / "boxes" / "sockets").iterdir())]


def is_free(ticket: Path) -> bool:
    with ticket.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
