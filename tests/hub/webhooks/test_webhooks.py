"""Webhooks end to end: what happens becomes messages, and the sweeper's sender brings them to a receiver."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db import transaction
from django.test import Client, TestCase
from django.utils import timezone
from envhub.protocol.accounts.notices import ScoreWatchRequest
from envhub.protocol.accounts.webhooks import CHOICES, WebhookRequest
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.runs import Failure, FailureKind, RunKind, RunState

from hub.accounts.models import Role, User
from hub.core.errors import Conflict, Invalid
from hub.evals.annotation_targets import place_in, target_of
from hub.evals.queries import get_rollout
from hub.evals.services import add_note, watch_scores
from hub.notices.models import Notice
from hub.registry.models import Version
from hub.runs.models import Run
from hub.runs.services import end_attempt
from hub.webhooks import services
from hub.webhooks.models import Delivery, Webhook
from hub.webhooks.posting import Message, Outcome
from hub.webhooks.sender import DELAYS, LEASE, Sender, note_outcome
from tests.factories.accounts import bearer, make_owner, make_token, make_user
from tests.factories.evals import create_hosted, make_record, start, store
from tests.factories.registry import create_ready_version
from tests.factories.runs import hold_run, make_run

pytestmark = pytest.mark.django_db
BROKEN = Failure(kind=FailureKind.ENVIRONMENT, code="boom", message="it broke")


@dataclass
class Receiver:
    """Answers `status`, and keeps what it was sent."""

    url: str = ""
    status: int = 200
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(kept.status)
            self.end_headers()
            self.wfile.write(b"thanks " + b"x" * 5000)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kept.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield kept
    server.shutdown()
    server.server_close()


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def webhook_of(user: User, url: str = "http://127.0.0.1:9/hook") -> tuple[Webhook, str]:
    return services.create_webhook(user=user, owner=user.owner, request=WebhookRequest(url=url, events=CHOICES))


def end(run: Run, state: RunState = RunState.SUCCEEDED) -> None:
    hold_run(run, state=RunState.RUNNING)
    run.refresh_from_db()
    end_attempt(run=run, to=state, now=timezone.now(), failure=BROKEN if state is RunState.FAILED else None)


def send_all(sender: Sender) -> None:
    """Until what was due has come back."""
    began = sender()
    deadline = time.monotonic() + 20
    while sender._busy.total() and time.monotonic() < deadline:
        time.sleep(0.01)
        sender.note_outcomes()
    assert began
    assert not sender._busy.total()


def test_a_message_arrives_once_and_its_signature_can_be_verified(alice: User, receiver: Receiver) -> None:
    webhook, secret = webhook_of(alice, receiver.url)
    end(make_run(owner=alice.owner, kind=RunKind.EVAL, subject_url="/evaluations/1"))
    sender = Sender()
    send_all(sender)
    assert sender() == 0
    [(sent, body)] = receiver.got
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert sent["webhook-signature"] == f"v1,{digest}"
    assert abs(int(sent["webhook-timestamp"]) - time.time()) < 60
    told = json.loads(body)
    assert (told["type"], told["data"]["state"], told["data"]["url"][-14:]) == (
        "evaluation.finished",
        "succeeded",
        "/evaluations/1",
    )
    row = Delivery.objects.get(webhook=webhook)
    assert (row.state, row.status, row.attempts, row.answer[:8], len(row.answer)) == (
        "delivered",
        200,
        1,
        "thanks x",
        500,
    )


EVENTS = [
    (RunKind.EVAL, RunState.CANCELLED, ["evaluation.finished"]),
    (RunKind.TRAIN, RunState.FAILED, ["run.failed", "training.finished"]),
    (RunKind.SANDBOX, RunState.FAILED, ["run.failed"]),
    (RunKind.SANDBOX, RunState.SUCCEEDED, []),
]


@pytest.mark.parametrize(("kind", "state", "events"), EVENTS)
def test_the_end_of_a_run_is_told_once_for_each_event(
    alice: User, kind: RunKind, state: RunState, events: list[str]
) -> None:
    webhook_of(alice)
    end(make_run(owner=alice.owner, kind=kind), state)
    end(make_run(owner=alice.owner, kind=kind, parent=make_run(owner=alice.owner)), state)  # a part is no event
    end(make_run(owner=make_user("bob").owner, kind=kind), state)
    assert sorted(Delivery.objects.values_list("event", flat=True)) == events


@pytest.mark.parametrize(("state", "event"), [("ready", "version.ready"), ("invalid", "version.invalid")])
def test_the_end_of_a_build_says_what_became_of_the_version(alice: User, state: str, event: str) -> None:
    version = create_ready_version(alice)
    run = make_run(owner=alice.owner, kind=RunKind.BUILD)
    Version.objects.filter(pk=version.pk).update(state=VersionState(state).value, build_run=run)
    webhook_of(alice)
    services.tell_webhooks(run)
    assert list(Delivery.objects.values_list("event", flat=True)) == [event]


def test_what_is_rolled_back_is_not_sent(alice: User) -> None:
    webhook_of(alice)
    with transaction.atomic():
        end(make_run(owner=alice.owner))
        transaction.set_rollback(True)
    assert not Delivery.objects.exists()


def test_a_sender_that_was_killed_loses_nothing(alice: User, receiver: Receiver) -> None:
    webhook, _ = webhook_of(alice, receiver.url)
    row = services.send_test(user=alice, webhook=webhook)
    Delivery.objects.filter(pk=row.pk).update(attempts=1, due_at=timezone.now() + LEASE)  # claimed, and never heard of
    assert Sender()() == 0
    Delivery.objects.filter(pk=row.pk).update(attempts=2, due_at=timezone.now())
    note_outcome(row, 1, Outcome(1.0, status=500))  # the first attempt's answer, late
    send_all(Sender())
    assert [sent["webhook-id"] for sent, _ in receiver.got] == [str(row.pk)]
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("delivered", 3)


def test_what_fails_is_tried_for_a_day_and_then_the_webhook_is_disabled(alice: User, receiver: Receiver) -> None:
    receiver.status = 500
    webhook, _ = webhook_of(alice, receiver.url)
    end(make_run(owner=alice.owner, kind=RunKind.EVAL))
    sender = Sender(lambda message, policy: Outcome(0.1, status=500))
    for delay in DELAYS:
        send_all(sender)
        row = Delivery.objects.get()
        assert row.due_at is not None
        assert timedelta() < row.due_at - timezone.now() <= delay
        Delivery.objects.update(due_at=timezone.now())
    send_all(sender)
    webhook.refresh_from_db()
    assert (Delivery.objects.get().state, webhook.disabled_why[:9]) == ("failed", "for a day")
    assert Notice.objects.filter(user=alice, kind="hub", url=f"/settings/webhooks/{webhook.pk}").count() == 1
    end(make_run(owner=alice.owner))
    assert Delivery.objects.count() == 1
    with pytest.raises(Conflict):
        services.send_test(user=alice, webhook=webhook)


def test_a_webhook_that_is_gone_is_disabled_at_once(alice: User, receiver: Receiver) -> None:
    receiver.status = 410
    webhook, _ = webhook_of(alice, receiver.url)
    services.send_test(user=alice, webhook=webhook)
    send_all(Sender())
    webhook.refresh_from_db()
    assert "410" in webhook.disabled_why


def test_one_slow_receiver_holds_up_nobody(alice: User) -> None:
    slow, _ = webhook_of(alice)
    held = threading.Event()

    def post(message: Message, policy: object) -> Outcome:
        if message.url == slow.url:
            held.wait(20)
        return Outcome(0.0, status=200)

    for _ in range(30):
        services.send_test(user=alice, webhook=slow)
    quick, _ = webhook_of(alice, "http://127.0.0.1:9/quick")
    services.send_test(user=alice, webhook=quick)
    sender = Sender(post)
    for _ in range(3):
        sender()
        time.sleep(0.05)
    sender.note_outcomes()
    assert sender._busy[slow.pk] == 4
    assert Delivery.objects.get(webhook=quick).state == "delivered"
    held.set()


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "http://10.0.0.1/x", "http://user:x@127.0.0.1/"])
def test_an_address_that_the_hub_may_not_call_is_refused(alice: User, url: str) -> None:
    body = {"url": url, "events": ["run.failed"]}
    headers = bearer(make_token(alice))
    reply = Client().post("/api/v1/webhooks", body, content_type="application/json", headers=headers)
    assert reply.status_code == 422
    assert not Webhook.objects.exists()


def test_an_address_that_turns_private_later_is_not_called(alice: User) -> None:
    webhook, _ = webhook_of(alice)
    Webhook.objects.filter(pk=webhook.pk).update(url="http://169.254.169.254/latest")
    services.send_test(user=alice, webhook=webhook)
    send_all(Sender())
    row = Delivery.objects.get()
    assert (row.state, row.status) == ("failed", None)
    assert row.problem


def test_only_those_who_maintain_a_team_have_its_webhooks(alice: User) -> None:
    bob = make_user("bob")
    team = make_owner("team", members=[alice], role=Role.OWNER)
    team.memberships.create(user=bob, role=Role.MEMBER)
    request = WebhookRequest(url="http://127.0.0.1:9/hook", events=CHOICES)
    webhook, secret = services.create_webhook(user=alice, owner=team, request=request)
    for path in (f"/api/v1/webhooks/{webhook.pk}", f"/api/v1/webhooks/{webhook.pk}/deliveries"):
        assert Client().get(path, headers=bearer(make_token(bob))).status_code == 403
        shown = Client().get(path, headers=bearer(make_token(alice)))
        assert (shown.status_code, secret in shown.content.decode()) == (200, False)


def test_the_page_shows_the_secret_once_and_escapes_answers(alice: User) -> None:
    client = Client()
    client.force_login(alice)
    made = client.post("/settings/webhooks", {"url": "http://127.0.0.1:9/hook", "events": ["run.failed"]})
    assert b"whsec_" in made.content
    assert b"whsec_" not in client.get("/settings/webhooks").content
    webhook = Webhook.objects.get()
    page = f"/settings/webhooks/{webhook.pk}"
    client.post(f"{page}/test")
    Delivery.objects.update(attempts=1)
    row = Delivery.objects.get()
    note_outcome(row, 1, Outcome(0.1, status=500, answer="<script>alert(1)</script>"))
    html = client.get(page).content.decode()
    assert "&lt;script&gt;alert(1)" in html
    assert "failing" in client.get("/settings/webhooks").text
    client.post(f"{page}/deliveries/{row.pk}/again")
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("waiting", 0)
    client.post(f"{page}/enable", {"disable": "1"})
    assert client.post(f"{page}/test").status_code == 409


def test_an_owner_has_few_webhooks(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST", 1)
    webhook_of(alice)
    with pytest.raises(Conflict, match="has 1 webhooks"):
        webhook_of(alice)
    with pytest.raises((Invalid, ValueError), match=r"sends webhook\.test"):
        WebhookRequest(url="http://127.0.0.1:9/hook", events=("webhook.test",))  # type: ignore[arg-type]


def test_a_note_and_a_score_that_is_watched_for_are_told_with_where_to_look(alice: User) -> None:
    bob, evaluation = make_user("bob"), create_hosted(alice)
    webhook_of(alice), webhook_of(bob)
    alice.owner.memberships.create(user=bob, role=Role.MEMBER)
    for user in (alice, bob):
        watch_scores(user=user, environment=evaluation.environment, request=ScoreWatchRequest(model="", below=0.9))
    start(evaluation)
    store(evaluation, [make_record(0, 0, 0.5), make_record(1, 0, 0.5)])
    place = place_in(evaluation, get_rollout(evaluation, 1, 0))
    add_note(user=bob, of=target_of(evaluation), place=place, text="look")
    assert evaluation.run is not None
    evaluation.run.refresh_from_db()
    with TestCase.captureOnCommitCallbacks(execute=True):
        end_attempt(run=evaluation.run, to=RunState.SUCCEEDED, now=timezone.now())
    told = {(row.webhook.owner.slug, row.event): json.loads(row.body)["data"] for row in Delivery.objects.all()}
    assert set(told) == {
        *(("alice", event) for event in ("note.added", "score.crossed", "evaluation.finished")),
        ("bob", "score.crossed"),
    }
    note, score = told["alice", "note.added"], told["bob", "score.crossed"]
    assert (note["author"], note["text"], "example 1" in note["about"]) == ("bob", "look", True)
    assert note["url"].startswith("http")
    assert (score["mean"], score["below"], score["url"].endswith(f"/evaluations/{evaluation.pk}")) == (0.5, 0.9, True)
