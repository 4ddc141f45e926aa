"""What has ended long ago goes by the rule of its owner and kind; what is needed, shared or going on stays."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.evals.models import Evaluation
from hub.evals.services import delete_evaluation, resume_evaluation, share_evaluation
from hub.evals.services.lifecycle import forget_evaluation
from hub.registry.models import EvaluationCount, Version
from hub.runs.models import Run, RunLogPiece
from hub.runs.retention import Forgotten, apply_retention, days_of
from hub.runs.transitions import move
from hub.sandboxes.models import Sandbox
from hub.storage.models import Blob
from hub.storage.services import collect_garbage
from hub.training.models import Checkpoint, TrainingRun
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_records, start, store
from tests.factories.runs import make_run
from tests.factories.sandboxes import create_ended, create_running
from tests.factories.training_runs import adapter_report, checkpoint_report, create_run, report, training_request
from tests.factories.training_runs import start as start_training

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(own: dict[str, dict[str, float]] | None = None, **days: float) -> None:
        changes = {
            "retention_days": {RunKind(kind): value for kind, value in days.items()},
            "owner_retention_days": {
                owner: {RunKind(kind): value for kind, value in of_owner.items()}
                for owner, of_owner in (own or {}).items()
            },
        }
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=changes))

    return use


def apply(days_later: float = 0, **options: bool) -> list[Forgotten]:
    return list(apply_retention(now=timezone.now() + timedelta(days=days_later), **options))


def end(run: Run | None) -> None:
    assert run is not None
    run.refresh_from_db()
    move(run, RunState.SUCCEEDED, finished_at=timezone.now())


def ended_evaluation(user: User) -> Evaluation:
    evaluation = create_hosted(user)
    start(evaluation)
    store(evaluation, make_records([1.0, 0.0]))
    end(evaluation.run)
    return evaluation


def ended_training(user: User, **fields: Any) -> TrainingRun:
    training = create_run(user, training_request(**fields))
    start_training(training)
    report(training, checkpoint_report(1))
    report(training, adapter_report(1))
    end(training.run)
    return training


def test_runs_from_before_an_evaluation_was_resumed_go_as_well_as_those_of_deleted_ones(
    alice: User, rules: Any
) -> None:
    rules(eval=30)
    evaluation, deleted = ended_evaluation(alice), ended_evaluation(alice)
    first, orphan = evaluation.run_id, deleted.run_id
    delete_evaluation(user=alice, evaluation=deleted)
    evaluation = resume_evaluation(user=alice, evaluation=Evaluation.objects.get(pk=evaluation.pk))
    share_evaluation(user=alice, evaluation=evaluation, visibility=Visibility.PUBLIC)
    assert apply(days_later=29) == []
    assert apply(days_later=31) == [Forgotten("alice", RunKind.EVAL, 30, gone=2, kept=0)]
    assert set(Run.objects.values_list("pk", flat=True)) & {first, orphan, evaluation.run_id} == {evaluation.run_id}


def test_nothing_goes_without_a_rule(alice: User) -> None:
    ended_evaluation(alice)
    assert apply(days_later=10_000) == []


def test_an_owners_rule_goes_before_that_of_all(rules: Any) -> None:
    rules({"alice": {"eval": 30, "train": 0}}, eval=90, train=365)
    assert (days_of("alice", RunKind.EVAL), days_of("bob", RunKind.EVAL)) == (30, 90)
    assert (days_of("alice", RunKind.TRAIN), days_of("bob", RunKind.TRAIN)) == (None, 365)
    assert days_of("alice", RunKind.BUILD) is None


def test_an_old_evaluation_goes_with_its_run_its_log_and_its_bytes(alice: User, rules: Any) -> None:
    evaluation, going_on = ended_evaluation(alice), create_hosted(alice)
    RunLogPiece.objects.create(run=evaluation.run, attempt=1, offset=0, text="log")
    segment = evaluation.segments.get().blob_id
    rules(eval=30)
    assert apply(days_later=29) == []
    assert apply(31, dry_run=True) == [Forgotten("alice", RunKind.EVAL, 30, 1, 0)]
    assert Evaluation.objects.count() == 2
    assert apply(31) == [Forgotten("alice", RunKind.EVAL, 30, 1, 0)]
    assert list(Evaluation.objects.all()) == [going_on]
    assert (EvaluationCount.objects.get().evaluations, RunLogPiece.objects.count()) == (1, 0)
    assert not Run.objects.filter(pk=evaluation.run_id).exists()
    collect_garbage(now=timezone.now() + timedelta(days=2))
    assert not Blob.objects.filter(pk=segment).exists()


def test_one_that_is_resumed_or_shared_after_it_was_found_stays(alice: User) -> None:
    evaluation, before = ended_evaluation(alice), timezone.now() + timedelta(days=1)
    Evaluation.objects.update(finished_at=before)
    assert not forget_evaluation(evaluation.pk, before)
    Evaluation.objects.update(finished_at=NOW, visibility=Visibility.PUBLIC.value)
    assert not forget_evaluation(evaluation.pk, before)
    Evaluation.objects.update(visibility=Visibility.PRIVATE.value)
    assert forget_evaluation(evaluation.pk, before)


def test_what_is_public_stays(alice: User, rules: Any) -> None:
    evaluation = ended_evaluation(alice)
    share_evaluation(user=alice, evaluation=evaluation, visibility=Visibility.PUBLIC)
    rules(eval=30)
    assert apply(31) == []


def test_a_training_run_goes_and_its_adapter_stays_in_the_catalog(alice: User, rules: Any) -> None:
    ended_training(alice)
    models = Model.objects.count()
    rules(train=30)
    assert apply(31) == [Forgotten("alice", RunKind.TRAIN, 30, 1, 0)]
    assert (TrainingRun.objects.count(), Checkpoint.objects.count(), Model.objects.count()) == (0, 0, models)


def test_a_training_run_from_which_another_began_stays(alice: User, rules: Any) -> None:
    first, second = ended_training(alice), create_run(alice, training_request(name="second"))
    TrainingRun.objects.filter(pk=second.pk).update(warm_start=Checkpoint.objects.get(training=first))
    rules(train=30)
    assert apply(31) == [Forgotten("alice", RunKind.TRAIN, 30, 0, 1)]
    assert TrainingRun.objects.count() == 2


def test_ended_sandboxes_go_and_living_ones_stay(alice: User, rules: Any) -> None:
    create_ended(alice)
    living = create_running(alice)
    rules(sandbox=7)
    assert apply(8) == [Forgotten("alice", RunKind.SANDBOX, 7, 1, 0)]
    assert list(Sandbox.objects.all()) == [living]


def test_the_build_that_a_version_shows_stays(alice: User, rules: Any) -> None:
    create_hosted(alice)
    shown = make_run(owner=alice.owner, kind=RunKind.BUILD, state=RunState.SUCCEEDED, finished_at=NOW)
    Version.objects.update(build_run=shown)
    make_run(owner=alice.owner, kind=RunKind.BUILD, state=RunState.FAILED, finished_at=NOW)
    rules(build=30)
    assert apply(31) == [Forgotten("alice", RunKind.BUILD, 30, 1, 0)]
    assert Run.objects.filter(pk=shown.pk).exists()


def test_the_command_says_what_it_does_for_whom(alice: User, rules: Any) -> None:
    evaluation = ended_evaluation(alice)
    Evaluation.objects.filter(pk=evaluation.pk).update(finished_at=NOW - timedelta(days=31))
    rules({"alice": {"eval": 30}})
    for option, says in ((["--dry-run"], "1 would be deleted"), ([], "1 deleted; collect_garbage frees")):
        out = StringIO()
        call_command("apply_retention", *option, stdout=out)
        assert "alice" in out.getvalue()
        assert says in out.getvalue()
    assert not Evaluation.objects.exists()
