"""Who is told of what, in the transaction of what has happened; the bell, and what people choose."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.notices import Follows, NoticeChoices
from envhub.protocol.runs import Failure, FailureKind, RunKind, RunState
from envhub.protocol.training.metrics import StepMetrics

from hub.accounts.models import User
from hub.evals.annotation_targets import place_in, target_of
from hub.evals.models import Evaluation
from hub.evals.queries import get_rollout
from hub.evals.services import add_note
from hub.notices.models import Notice
from hub.notices.queries import count_unread
from hub.notices.services import choose_notices
from hub.registry.models import SourceUpload
from hub.runs.models import Run
from hub.runs.services import end_attempt
from hub.training.models import TrainingRun
from tests.factories.accounts import make_owner, make_user
from tests.factories.evals import create_hosted, make_record, start, store
from tests.factories.runs import hold_run, make_run
from tests.factories.training_runs import create_run

pytestmark = pytest.mark.django_db
BROKEN = Failure(kind=FailureKind.ENVIRONMENT, code="boom", message="it <b>broke</b>")


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def end(run: Run, state: RunState = RunState.SUCCEEDED) -> None:
    hold_run(run, state=RunState.RUNNING)
    run.refresh_from_db()
    end_attempt(run=run, to=state, now=timezone.now(), failure=BROKEN if state is RunState.FAILED else None)


def test_whoever_started_an_evaluation_is_told_once_how_it_ended(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    assert evaluation.run is not None
    end_attempt(run=Run.objects.get(pk=evaluation.run_id), to=RunState.FAILED, now=timezone.now(), failure=BROKEN)
    notice = Notice.objects.get(user=alice)
    assert (notice.kind, notice.detail, notice.url) == ("failed", BROKEN.message, f"/evaluations/{evaluation.pk}")
    alice.refresh_from_db()
    assert alice.unread == 1


def test_whoever_started_a_training_is_told_which_and_how_far_it_came(alice: User) -> None:
    training = create_run(alice)
    assert training.run is not None
    latest = StepMetrics(step=2, reward_mean=0.25).model_dump(mode="json")
    TrainingRun.objects.filter(pk=training.pk).update(step=2, latest=latest, best_reward=0.5)
    end(training.run)
    notice = Notice.objects.get(user=alice)
    assert notice.text.startswith("The training sort: base on alice/tiny-env@")
    assert notice.detail == "2 of 3 steps, reward 0.250, at best 0.500"


@pytest.mark.parametrize(
    ("rewards", "told"),
    [
        ((), "nothing scored"),
        ((1.0,), "mean reward 1.000 over 1 rollout"),
        ((0.0, 1.0), "mean reward 0.500 ± 0.500 over 2 rollouts"),
    ],
)
def test_whoever_started_an_evaluation_is_told_its_score(alice: User, rewards: tuple[float, ...], told: str) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    store(evaluation, [make_record(example, 0, reward) for example, reward in enumerate(rewards)])
    end_attempt(run=Run.objects.get(pk=evaluation.run_id), to=RunState.SUCCEEDED, now=timezone.now())
    assert [notice.detail for notice in Notice.objects.filter(user=alice, kind="finished")] == [told]


@pytest.mark.parametrize(("state", "told"), [(RunState.SUCCEEDED, 0), (RunState.FAILED, 1)])
def test_packing_an_upload_is_told_only_if_it_fails(alice: User, state: RunState, told: int) -> None:
    run = make_run(owner=alice.owner, kind=RunKind.BUILD)
    SourceUpload.objects.create(run=run, filename="a.zip", folder="", name="a")
    end(run, state)
    assert Notice.objects.count() == told


def test_what_is_rolled_back_is_told_to_nobody(alice: User) -> None:
    run = make_run(owner=alice.owner, kind=RunKind.TRAIN)
    with transaction.atomic():
        end(run)
        transaction.set_rollback(True)
    assert not Notice.objects.exists()


CASES = [  # what the starter follows, what another member follows, how it ends, who is told
    (Follows.OWN, Follows.OWN, RunState.SUCCEEDED, ["alice"]),
    (Follows.OWN, Follows.ALL, RunState.FAILED, ["alice", "bob"]),
    (Follows.NONE, Follows.ALL, RunState.SUCCEEDED, ["bob"]),
    (Follows.FAILED, Follows.NONE, RunState.SUCCEEDED, []),
    (Follows.FAILED, Follows.NONE, RunState.FAILED, ["alice"]),
    (Follows.ALL, Follows.ALL, RunState.CANCELLED, []),
]


@pytest.mark.parametrize(("own", "other", "state", "told"), CASES)
def test_people_choose_what_they_are_told(
    alice: User, own: Follows, other: Follows, state: RunState, told: list[str]
) -> None:
    bob, stranger = make_user("bob"), make_user("mallory")
    team = make_owner("team", members=[alice, bob])
    for user, runs in ((alice, own), (bob, other), (stranger, Follows.ALL)):
        choose_notices(user=user, choices=NoticeChoices(runs=runs))
    end(make_run(owner=team, kind=RunKind.TRAIN, created_by=alice), state)
    assert sorted(Notice.objects.values_list("user__username", flat=True)) == told


@pytest.mark.parametrize(("kind", "told"), [(RunKind.BUILD, 1), (RunKind.SANDBOX, 0)])
def test_only_runs_that_people_wait_for_are_told_of(alice: User, kind: RunKind, told: int) -> None:
    end(make_run(owner=alice.owner, kind=kind), RunState.FAILED)
    assert Notice.objects.count() == told


@pytest.mark.parametrize(("author", "wants", "told"), [("bob", True, 1), ("bob", False, 0), ("alice", True, 0)])
def test_a_note_is_told_to_who_started_the_evaluation(alice: User, author: str, wants: bool, told: int) -> None:
    bob, evaluation = make_user("bob"), create_hosted(alice)
    store(evaluation, [make_record(0, 0)])
    alice.owner.memberships.create(user=bob)
    choose_notices(user=alice, choices=NoticeChoices(notes=wants))
    user, rollout = {"alice": alice, "bob": bob}[author], get_rollout(evaluation, 0, 0)
    add_note(user=user, of=target_of(evaluation), place=place_in(evaluation, rollout), text="look")
    notes = Notice.objects.filter(user=alice, kind="note", url__endswith="/rollouts/0/0#said")
    assert [note.text.partition(" wrote ")[2] for note in notes] == [
        "a note on example 0, rollout 0 of alice/tiny-env"
    ][:told]


def test_a_note_is_told_once_to_who_wrote_earlier_ones_on_the_same_rollout(alice: User) -> None:
    bob, carol, evaluation = make_user("bob"), make_user("carol"), create_hosted(alice)
    for one in (bob, carol):
        alice.owner.memberships.create(user=one)
    store(evaluation, [make_record(0, 0), make_record(1, 0)])
    for author, example in ((bob, 0), (bob, 0), (carol, 1), (carol, 0)):
        place = place_in(evaluation, get_rollout(evaluation, example, 0))
        add_note(user=author, of=target_of(evaluation), place=place, text="look")
    told = [Notice.objects.filter(user=one, kind="note").count() for one in (alice, bob, carol)]
    assert told == [4, 1, 0]


def test_who_has_left_the_team_is_told_nothing_more_of_it(alice: User) -> None:
    bob, team, evaluation = make_user("bob"), make_owner("lab", members=[alice]), create_hosted(alice)
    store(evaluation, [make_record(0, 0)])
    for rows in (Evaluation.objects.filter(pk=evaluation.pk), Run.objects.filter(pk=evaluation.run_id)):
        rows.update(owner=team, created_by=bob)  # who has been a member
    evaluation = Evaluation.objects.get(pk=evaluation.pk)
    rollout = get_rollout(evaluation, 0, 0)
    add_note(user=alice, of=target_of(evaluation), place=place_in(evaluation, rollout), text="look")
    end(Run.objects.get(pk=evaluation.run_id))
    assert not Notice.objects.filter(user=bob).exists()


def test_the_bell_counts_until_all_is_read(alice: User) -> None:
    client = Client()
    client.force_login(alice)
    for _ in range(3):
        end(make_run(owner=alice.owner, kind=RunKind.TRAIN), RunState.FAILED)
    page = client.get("/notifications").content.decode()
    assert "Notifications: 3 unread" in page
    assert "it &lt;b&gt;broke" in page
    newest = Notice.objects.order_by("-pk").first()
    assert newest is not None
    assert client.post(f"/notifications/{newest.pk}/open")["Location"] == newest.url
    assert "Notifications: 2 unread" in client.get("/runs").content.decode()
    client.post("/notifications/read")
    assert "unread" not in client.get("/notifications").content.decode()
    assert count_unread(alice) == 0
