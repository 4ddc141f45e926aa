"""Whatever is killed while rollouts use sandboxes: each rollout ends right, once, and nothing of a sandbox is left.

With bubblewrap's boxes, and with containers, whose daemon its operator starts again.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import RunState

from infra.demo.processes import Role, kill, processes_of
from tests.e2e import reversing
from tests.e2e.caches import cache_root
from tests.e2e.package_runs import PACKAGES, calls
from tests.e2e.stack import Stack, running_stack, wait_until
from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.workers.sandbox.running_engine import RunningEngine, need_podman

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
EXAMPLES, ROLLOUTS, AT_ONCE = 2, 20, 6
TOTAL = EXAMPLES * ROLLOUTS
WORKS = "head -c 20000000 /dev/zero > /tmp/big; sleep 0.5; echo 42 > /tmp/answer"
IN_SANDBOX = "/run/envhub/python/"  # of the command line of what a box on an image starts
ROLES = {
    "runner": Role.RUNNER, "run": Role.EVAL_RUN, "host": Role.HOST, "worker": Role.WORKER, "web": Role.WEB,
}  # fmt: skip
SHARES = (0.0, 0.3, 0.6)


@dataclass
class Place:
    """A hub whose worker makes its sandboxes by one backend. Named like the words of the tests that use it."""

    stack: Stack
    engine: RunningEngine | None
    environment: str = ""

    def sandboxes(self) -> list[int]:
        """The process of each that is its end, and that nobody inside can end by a signal."""
        if self.engine is not None:
            return self.engine.agents()
        inner_and_outer = {
            process.pid: process.parent
            for process in processes_of(self.stack.data)
            if process.command[:1] == ("bwrap",) and any(IN_SANDBOX in word for word in process.command)
        }
        return [pid for pid, parent in inner_and_outer.items() if parent not in inner_and_outer]

    def victims(self, name: str) -> list[int]:
        """The processes of that name."""
        if name == "sandbox":
            return self.sandboxes()
        if name in ROLES:
            return self.stack.pids(ROLES[name])
        assert self.engine is not None
        return self.engine.processes(name)


@pytest.fixture(scope="module", params=["bwrap", "podman"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        if request.param == "bwrap":
            found = Place(request.getfixturevalue("stack"), None)
        else:
            need_podman()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eg-", dir="/tmp")))
            folder.chmod(0o711)
            engine = RunningEngine(folder, "--show", str(cache_root()))
            stack.enter_context(engine.kept_running())
            settings = {"WORKER_SANDBOXES": "podman,bwrap", "WORKER_SANDBOX_ENGINE": str(engine.socket)}
            data = tmp_path_factory.mktemp("hub")
            found = Place(stack.enter_context(running_stack(data, settings)), engine)
        version = found.stack.wait_ready(found.stack.push(PACKAGES / "e2e-sandbox"))
        assert not version.failure
        found.environment = f"{version.owner}/{version.name}"
        yield found


def start(place: Place, works: str = WORKS, rollouts: int = ROLLOUTS) -> EvaluationView:
    model = place.stack.register(PolicyEndpoint(answer=calls("bash", {"command": works}, "it is 42"), latency_s=0.2))
    return place.stack.evaluate(
        EvaluationConfig(
            environment=place.environment, model=model, num_examples=EXAMPLES, rollouts_per_example=rollouts,
            concurrency=AT_ONCE, timeout_s=120, max_retries=5,
        )
    )  # fmt: skip


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("victim", [*ROLES, "sandbox"])
def test_killing_what_holds_a_sandbox(place: Place, victim: str, share: float) -> None:
    check_killing(place, victim, share)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("victim", ["daemon", "service", "monitor"])
def test_killing_what_holds_a_container(place: Place, victim: str, share: float) -> None:
    if place.engine is None:
        pytest.skip("bubblewrap has no daemon")
    check_killing(place, victim, share)


def check_killing(place: Place, victim: str, share: float) -> None:
    stack = place.stack
    evaluation = start(place)
    wait_until(lambda: bool(place.sandboxes()), 120, stack.log_tail, 0.02)
    if share:
        reversing.await_stored(stack, evaluation.id, beyond=int(share * TOTAL))
    wait_until(lambda: bool(kill(place.victims(victim))), 60, lambda: f"there is no {victim}", 0.02)
    view = stack.finished(evaluation.id)
    check_complete(stack, view)
    check_nothing_left(place)


def test_those_that_live_are_shown_and_what_a_person_ends_is_tried_again(place: Place) -> None:
    stack = place.stack
    view = start(place, f"sleep 8; {WORKS}", rollouts=2)
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
    check_nothing_left(place)


def check_complete(stack: Stack, view: EvaluationView, rollouts: int = ROLLOUTS) -> None:
    assert view.state is RunState.SUCCEEDED, stack.run_log(view.run_id or "")[-3000:]
    rows = stack.rollouts(view.id)
    planned = {(example, rollout) for example in range(EXAMPLES) for rollout in range(rollouts)}
    assert Counter((row.example, row.rollout) for row in rows) == Counter(planned)
    assert {(row.outcome, row.reward) for row in rows} == {(Outcome.OK, 2.0)}


def check_nothing_left(place: Place) -> None:
    """Neither processes nor files, mounts, control groups or tickets."""
    data = Path(place.stack.settings["WORKER_DATA"])
    wait_until(lambda: not place.sandboxes(), 30, lambda: "a sandbox outlived its run")
    wait_until(lambda: not boxes(data), 60, lambda: f"left: {boxes(data)}")
    assert "/boxes/" not in Path("/proc/self/mountinfo").read_text()
    assert all(is_free(ticket) for ticket in (data / "sandbox-tickets" / "living").iterdir())
    if place.engine is not None:
        engine = place.engine
        wait_until(lambda: not engine.leftovers(), 60, lambda: f"the engine left: {engine.leftovers()}")


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
