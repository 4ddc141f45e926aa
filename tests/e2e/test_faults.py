"""Whatever is killed and whatever the model's endpoint does: no rollout is lost, doubled, or scored 0 for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from envhub.protocol.rollouts import Outcome
from envhub.protocol.runs import FailureKind, RunState

from infra.demo.processes import Role, kill
from tests.e2e import reversing
from tests.e2e.stack import Stack, wait_until
from tests.fakes.policy_endpoint import Fault
from tests.fakes.redis_server import RedisServer

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
VICTIMS = (Role.RUNNER, Role.EVAL_RUN, Role.SWEEPER, Role.HOST, Role.WORKER, Role.WEB)
ENDPOINT_FAULTS = (Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.HANG, Fault.GARBAGE, Fault.DISCONNECT)
ANSWERS_FIRST = [None] * 40  # of reversing.TOTAL requests
NOT_BY_DEFAULT = {Fault.HANG, Fault.GARBAGE, Fault.DISCONNECT}


@pytest.fixture(scope="module")
def environment(stack: Stack) -> str:
    """reverse-text, ready."""
    return reversing.push_reverse_text(stack)


def kill_role(stack: Stack, role: Role) -> None:
    """kill -9, as soon as there is one."""
    wait_until(lambda: bool(kill(stack.pids(role))), 60, lambda: f"there is no {role}", 0.1)


@pytest.mark.matrix  # the demo's short form kills most of them, test_production.py the others
def test_killing_each_kind_of_process_once_costs_nothing(stack: Stack, environment: str, tmp_path: Path) -> None:
    model = stack.register(reversing.slow_endpoint(0.8))
    evaluation = reversing.start(stack, environment, model, max_retries=5)
    stored = 0
    for role in VICTIMS:
        stored = reversing.await_stored(stack, evaluation.id, beyond=stored)
        kill_role(stack, role)
    assert stored < reversing.TOTAL, "the evaluation was over before everything was killed"
    reversing.check_complete(stack, stack.finished(evaluation.id), tmp_path)
    assert reversing.was_spread(stack, evaluation.id)


@pytest.mark.matrix
@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("role", VICTIMS)
def test_killing_a_process_at_any_time(
    stack: Stack, environment: str, tmp_path: Path, role: Role, share: float
) -> None:
    model = stack.register(reversing.slow_endpoint())
    evaluation = reversing.start(stack, environment, model, max_retries=5)
    if share:
        reversing.await_stored(stack, evaluation.id, beyond=int(share * reversing.TOTAL) - 8)
    kill_role(stack, role)
    reversing.check_complete(stack, stack.finished(evaluation.id), tmp_path)


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=[pytest.mark.matrix] if f in NOT_BY_DEFAULT else []) for f in ENDPOINT_FAULTS]
)
def test_an_endpoint_that_recovers_leaves_no_trace(
    stack: Stack, environment: str, tmp_path: Path, fault: Fault
) -> None:
    endpoint = reversing.slow_endpoint(0.1)
    endpoint.faults.extend([*ANSWERS_FIRST, *[fault] * 12])
    model = stack.register(endpoint, timeout_s=3, max_retries=3)
    evaluation = reversing.start(stack, environment, model)
    reversing.check_complete(stack, stack.finished(evaluation.id), tmp_path)
    assert not endpoint.faults


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=[] if f is Fault.SERVER_ERROR else [pytest.mark.matrix]) for f in ENDPOINT_FAULTS],
)
def test_an_endpoint_that_stays_broken_fails_the_run_and_resume_finishes_it(
    stack: Stack, environment: str, tmp_path: Path, fault: Fault
) -> None:
    endpoint = reversing.slow_endpoint(0.2)
    endpoint.faults.extend(ANSWERS_FIRST)
    endpoint.always = fault
    model = stack.register(endpoint, timeout_s=2, max_retries=0)
    evaluation = reversing.start(stack, environment, model, max_retries=0)
    view = stack.finished(evaluation.id)
    assert view.state is RunState.FAILED
    with stack.client() as hub:
        failure = hub.runs.get(view.run_id or "").failure
    assert failure is not None
    assert (failure.kind, failure.code) == (FailureKind.INFRASTRUCTURE, "endpoint_unavailable")
    assert 0 < view.summary.scored <= len(ANSWERS_FIRST)
    reversing.never_scored_zero(stack, evaluation.id)
    endpoint.always = None
    stack.cli("eval", "resume", evaluation.id)
    reversing.check_complete(stack, stack.finished(evaluation.id), tmp_path)


def test_failures_of_single_calls_are_no_zeros(stack: Stack, environment: str) -> None:
    endpoint = reversing.slow_endpoint(0.1)
    endpoint.faults.extend([*ANSWERS_FIRST, *[Fault.SERVER_ERROR] * 3])
    model = stack.register(endpoint, max_retries=0)
    evaluation = reversing.start(stack, environment, model, max_retries=0)
    view = stack.finished(evaluation.id)
    reversing.never_scored_zero(stack, evaluation.id)
    failed = [row for row in stack.rollouts(evaluation.id) if row.outcome is Outcome.FAILED]
    assert {row.failure_kind for row in failed} == {FailureKind.INFRASTRUCTURE}
    assert view.summary.stored == reversing.TOTAL
    assert view.summary.scored == reversing.TOTAL - len(failed)
    assert view.summary.reward is not None
    assert view.summary.reward.mean == 1.0


def test_runs_happen_while_the_brokers_directory_is_gone(stack: Stack, environment: str, tmp_path: Path) -> None:
    shutil.rmtree(stack.data / "broker", ignore_errors=True)
    model = stack.register(reversing.slow_endpoint(0.1))
    evaluation = reversing.start(stack, environment, model)
    reversing.check_complete(stack, stack.finished(evaluation.id), tmp_path)


@pytest.mark.matrix
def test_a_redis_that_is_killed_costs_no_run(stack: Stack, environment: str, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as redis, stack.restarted(HUB_BROKER_URL=redis.url):
        model = stack.register(reversing.slow_endpoint(0.8))
        running = reversing.start(stack, environment, model)
        reversing.await_stored(stack, running.id)
        redis.kill()
        waiting = reversing.start(stack, environment, model)
        reversing.check_complete(stack, stack.finished(running.id), tmp_path)
        with stack.client() as hub:
            assert "take no new runs" in (hub.runs.get(waiting.run_id or "").waiting_for or "")
        redis.start()
        reversing.check_complete(stack, stack.finished(waiting.id), tmp_path)
