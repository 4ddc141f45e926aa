"""Whatever is killed while rollouts use sandboxes: each rollout ends right, once, and nothing of a sandbox is left.

With bubblewrap's boxes, and with containers, whose daemon its operator starts again.
"""

from __future__ import annotations

from collections import Counter

import pytest
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import RunState

from infra.demo.processes import kill
from tests.e2e import reversing
from tests.e2e.package_runs import PACKAGES, calls
from tests.e2e.places import ROLES, Place, check_nothing_left
from tests.e2e.stack import Stack, wait_until
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.matrix]
EXAMPLES, ROLLOUTS, AT_ONCE = 2, 20, 6
TOTAL = EXAMPLES * ROLLOUTS
WORKS = "head -c 20000000 /dev/zero > /tmp/big; sleep 0.5; echo 42 > /tmp/answer"
SHARES = (0.0, 0.3, 0.6)


@pytest.fixture(scope="module")
def environment(place: Place) -> str:
    version = place.stack.wait_ready(place.stack.push(PACKAGES / "e2e-sandbox"))
    assert not version.failure
    return f"{version.owner}/{version.name}"


def start(place: Place, environment: str, works: str = WORKS, rollouts: int = ROLLOUTS) -> EvaluationView:
    model = place.stack.register(PolicyEndpoint(answer=calls("bash", {"command": works}, "it is 42"), latency_s=0.2))
    return place.stack.evaluate(
        EvaluationConfig(
            environment=environment, model=model, num_examples=EXAMPLES, rollouts_per_example=rollouts,
            concurrency=AT_ONCE, timeout_s=120, max_retries=5,
        )
    )  # fmt: skip


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("victim", [*ROLES, "sandbox"])
def test_killing_what_holds_a_sandbox(place: Place, environment: str, victim: str, share: float) -> None:
    check_killing(place, environment, victim, share)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("victim", ["daemon", "service", "monitor"])
def test_killing_what_holds_a_container(place: Place, environment: str, victim: str, share: float) -> None:
    if place.engine is None:
        pytest.skip("bubblewrap has no daemon")
    check_killing(place, environment, victim, share)


def check_killing(place: Place, environment: str, victim: str, share: float) -> None:
    stack = place.stack
    evaluation = start(place, environment)
    wait_until(lambda: bool(place.sandboxes()), 120, stack.log_tail, 0.02)
    if share:
        reversing.await_stored(stack, evaluation.id, beyond=int(share * TOTAL))
    wait_until(lambda: bool(kill(place.victims(victim))), 60, lambda: f"there is no {victim}", 0.02)
    view = stack.finished(evaluation.id)
    check_complete(stack, view)
    check_nothing_left(place)


def test_those_that_live_are_shown_and_what_a_person_ends_is_tried_again(place: Place, environment: str) -> None:
    stack = place.stack
    view = start(place, environment, f"sleep 8; {WORKS}", rollouts=2)
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
