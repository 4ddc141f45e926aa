"""An evaluation follows its run, can be resumed without losing or doubling anything, and can be deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from envhub.protocol.runs import Failure, FailureKind, RunState

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.core.errors import Conflict, NotAllowed, NotFound
from hub.evals.models import Evaluation, ExampleScore, RolloutIndex, Segment
from hub.evals.services import cancel_evaluation, create_evaluation, delete_evaluation, resume_evaluation
from hub.evals.wire import eval_payload, evaluation_summary
from hub.registry.cards import evaluations_seen
from hub.registry.models import Environment
from hub.registry.services import rebuild_version
from hub.runs.models import Run
from hub.runs.services import claim_run, end_attempt, expire_leases
from hub.secrets.services import set_secret
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted, make_config, make_failure, make_record, make_records, start, store
from tests.factories.registry import create_ready_version
from tests.factories.runs import make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def _run(evaluation: Evaluation) -> Run:
    evaluation.refresh_from_db()
    assert evaluation.run is not None
    return evaluation.run


def _finish(evaluation: Evaluation, state: RunState = RunState.SUCCEEDED, failure: Failure | None = None) -> None:
    end_attempt(run=_run(evaluation), to=state, failure=failure, now=timezone.now())
    evaluation.refresh_from_db()


def test_the_evaluation_has_the_state_of_its_run(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    _finish(evaluation)
    assert (evaluation.state, evaluation.finished_at is not None) == ("succeeded", True)


def test_a_lost_worker_puts_the_evaluation_back_into_the_queue_with_what_it_stored(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    store(evaluation, make_records([1, 0]))
    expire_leases(now=timezone.now() + timedelta(hours=1))
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation_summary(evaluation).stored) == ("queued", 2)


def test_the_payload_has_what_the_worker_needs_and_nothing_encrypted(alice: User) -> None:
    set_secret(owner=alice.owner, name="HF_TOKEN", value="hf-1", user=alice)
    create_endpoint(alice, "judge", api_key="sk-judge")
    evaluation = create_hosted(alice, secrets=["HF_TOKEN"], judges={"gpt-judge": "alice/judge"})
    payload = eval_payload(_run(evaluation))
    assert (payload.environment, payload.env_id, payload.module) == ("alice/tiny-env@0.1.0", "tiny-env", "tiny_env")
    assert payload.target.variants[0].api_key == "sk-secret"
    assert payload.judges["gpt-judge"].variants[0].api_key == "sk-judge"
    assert payload.secrets == {"HF_TOKEN": "hf-1"}
    assert all(wheel.url for wheel in payload.lock.wheels)


def test_a_model_that_has_gone_meanwhile_fails_the_claim_with_its_name(alice: User) -> None:
    evaluation = create_hosted(alice)
    Model.objects.update(name="another")
    with pytest.raises(NotFound, match="alice/stub"):
        eval_payload(_run(evaluation))


def test_a_version_that_is_built_again_meanwhile_still_has_the_lock_that_a_waiting_run_needs(alice: User) -> None:
    evaluation = create_hosted(alice)
    assert evaluation.version is not None
    Run.objects.filter(pk=evaluation.version.build_run_id).update(state=RunState.SUCCEEDED.value)
    rebuild_version(version=evaluation.version, user=alice)
    claim_run(run_id=str(evaluation.run_id), worker=make_worker(), now=timezone.now())
    assert _run(evaluation).state == "leased"


def test_resuming_keeps_what_is_scored_and_queues_a_new_run(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    store(evaluation, [make_record(0, 0), make_failure(0, 1)])
    failure = Failure(kind=FailureKind.INFRASTRUCTURE, code="endpoint_down", message="no answer")
    _finish(evaluation, RunState.FAILED, failure)
    first = evaluation.run_id
    resumed = resume_evaluation(user=alice, evaluation=evaluation)
    assert (resumed.state, resumed.finished_at, resumed.run_id != first) == ("queued", None, True)


def test_an_environment_that_has_become_private_is_not_run_again_by_others(alice: User) -> None:
    bob, version = make_user("bob"), create_ready_version(alice)
    environment = version.environment
    Environment.objects.filter(pk=environment.pk).update(visibility="public")
    config = make_config(f"alice/{environment.name}", f"bob/{create_endpoint(bob).name}")
    evaluation = create_evaluation(user=bob, owner=bob.owner, config=config)
    cancel_evaluation(user=bob, evaluation=evaluation)
    Environment.objects.filter(pk=environment.pk).update(visibility="private")
    evaluation.refresh_from_db()
    with pytest.raises(Conflict, match="is private now") as refused:
        resume_evaluation(user=bob, evaluation=evaluation)
    assert "ask alice" in refused.value.hint


def test_the_old_run_no_longer_moves_a_resumed_evaluation(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    _finish(evaluation, RunState.CANCELLED)
    old = Run.objects.get(pk=evaluation.run_id)
    resume_evaluation(user=alice, evaluation=evaluation)
    assert not hasattr(Run.objects.get(pk=old.pk), "evaluation")


def test_a_running_evaluation_cannot_be_resumed(alice: User) -> None:
    evaluation = create_hosted(alice)
    with pytest.raises(Conflict) as caught:
        resume_evaluation(user=alice, evaluation=evaluation)
    assert caught.value.code == "still_running"


def test_a_complete_evaluation_has_nothing_to_resume(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    store(evaluation, make_records([1, 0], [1, 1]))
    _finish(evaluation)
    with pytest.raises(Conflict) as caught:
        resume_evaluation(user=alice, evaluation=evaluation)
    assert caught.value.code == "complete"


def test_cancelling_goes_through_the_run(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    cancel_evaluation(user=alice, evaluation=evaluation)
    assert _run(evaluation).cancel_requested_at is not None


def test_a_queued_evaluation_is_cancelled_at_once(alice: User) -> None:
    evaluation = create_hosted(alice)
    cancel_evaluation(user=alice, evaluation=evaluation)
    evaluation.refresh_from_db()
    assert evaluation.state == "cancelled"


def test_a_running_evaluation_is_not_deleted(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    with pytest.raises(Conflict):
        delete_evaluation(user=alice, evaluation=evaluation)


def test_deleting_takes_the_rollouts_along_and_lets_the_environment_go(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    store(evaluation, make_records([1, 0]))
    _finish(evaluation)
    environment = evaluation.environment
    delete_evaluation(user=alice, evaluation=evaluation)
    assert not any(table.objects.exists() for table in (Evaluation, RolloutIndex, Segment, ExampleScore))
    assert evaluations_seen(alice, [environment]) == {environment.pk: 0}


def test_only_members_may_change_an_evaluation(alice: User) -> None:
    evaluation = create_hosted(alice, visibility="public")
    for change in (cancel_evaluation, resume_evaluation, delete_evaluation):
        with pytest.raises(NotAllowed):
            change(user=make_user(), evaluation=evaluation)
