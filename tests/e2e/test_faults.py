"""Whatever the model's endpoint does, and without a broker: no rollout is lost, doubled, or scored 0 for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import FailureKind, RunState

from tests.e2e import reversing
from tests.e2e.stack import Stack
from tests.fakes.policy_endpoint import Fault

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
ENDPOINT_FAULTS = (Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.HANG, Fault.GARBAGE, Fault.DISCONNECT)
ANSWERS_FIRST = [None] * 40  # of reversing.TOTAL requests


@pytest.fixture(scope="module")
def environment(stack: Stack) -> str:
    """reverse-text, ready."""
    return reversing.push_reverse_text(stack)


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ENDPOINT_FAULTS)
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


@pytest.mark.matrix
def test_runs_happen_while_the_brokers_directory_is_gone(stack: Stack, environment: str, tmp_path: Path) -> None:
    shutil.rmtree(stack.data / "broker", ignore_errors=True)
    model = stack.register(reversing.slow_endpoint(0.1))
    evaluation = reversing.start(stack, environment, model)
    reversing.check_complete(stack, stack.finished(evaluation.id), tmp_path)
