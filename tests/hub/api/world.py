"""The private world that calls of every route are made in, and what each URL argument is there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.mfa.models import Authenticator
from django.utils import timezone
from envhub.protocol.accounts.links import ShareLinkRequest
from envhub.protocol.accounts.notices import NoticeKind, ScoreWatchRequest
from envhub.protocol.accounts.users import Scope
from envhub.protocol.accounts.webhooks import WebhookEvent, WebhookRequest
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.sandboxes.live import LiveReport, LiveSandbox

from hub.accounts.models import ApiToken, Membership, Owner, Role, TeamInvitation, User
from hub.accounts.services import create_token, invite_to_team
from hub.data.models import Image
from hub.evals.annotation_targets import place_in, target_of
from hub.evals.models import Evaluation, Note, SavedRolloutView, ScoreWatch
from hub.evals.queries import get_rollout
from hub.evals.services import add_note, save_view, watch_scores
from hub.inference.models import Deployment
from hub.inference.services import ensure_deployment
from hub.links.models import ShareLink
from hub.links.services import create_link
from hub.notices.models import Notice
from hub.notices.services import tell
from hub.registry.models import FormerName, Version
from hub.registry.services import begin_push
from hub.runs.live_sandboxes import note_sandboxes
from hub.runs.models import Run, Worker
from hub.sandboxes.models import Sandbox
from hub.secrets.services import set_secret
from hub.training.annotation_targets import place_in_training, target_of_training
from hub.training.models import TrainingRun
from hub.training.queries import get_rollout as get_training_rollout
from hub.training.services import report_step
from hub.webhooks.models import Delivery
from hub.webhooks.services import create_webhook, send_test
from tests.factories.accounts import make_owner, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted, make_record, start, store
from tests.factories.images import create_image
from tests.factories.registry import build_pair, create_ready_version
from tests.factories.runs import hold_run, make_run, make_worker, make_worker_token
from tests.factories.sandboxes import create_running
from tests.factories.training_runs import create_run, create_trainable, step_report, training_request
from tests.factories.training_runs import start as start_training

MARK = "confidential"  # in the names of all private things: nobody else's answers may hold it


@dataclass(frozen=True)
class World:
    """Private things of alice, and everybody who might try to reach them."""

    alice: User
    bob: User
    root: User
    version: Version
    evaluation: Evaluation
    evaluation_token: str
    note: Note
    view: SavedRolloutView
    delivery: Delivery
    link: ShareLink
    training: TrainingRun
    training_token: str
    training_note: Note
    training_view: SavedRolloutView
    deployment: Deployment
    sandbox: Sandbox
    image: Image
    push_id: str
    token: ApiToken
    team: Owner
    invitation: TeamInvitation
    join_secret: str  # of a team whose name is no secret
    run: Run
    run_token: str
    foreign_run_token: str
    worker: Worker
    worker_token: str


def make_world() -> World:
    """All of it, freshly made."""
    alice, bob, root = make_user("alice"), make_user("bob"), make_user("root-user", is_superuser=True)
    version = create_ready_version(alice, f"{MARK}-env")
    version.environment.visibility = "private"
    version.environment.save(update_fields=["visibility"])
    FormerName.objects.create(owner=alice.owner, name=f"{MARK}-was", environment=version.environment)
    create_endpoint(alice, "stub", base_url="http://127.0.0.1:9/v1", max_retries=0)
    create_endpoint(alice, f"{MARK}-model", base_url="http://127.0.0.1:9/v1", max_retries=0)
    evaluation = create_hosted(alice, name=f"{MARK}-env")
    evaluation_token = start(evaluation)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = [{"role": "user", "content": [picture]}]
    store(evaluation, [make_record(prompt=asked)])
    wanted = WebhookRequest(url=f"http://127.0.0.1:9/{MARK}", events=(WebhookEvent.RUN_FAILED,))
    webhook, _ = create_webhook(user=alice, owner=alice.owner, request=wanted)
    rollout = get_rollout(evaluation, 0, 0)
    note = add_note(user=alice, of=target_of(evaluation), place=place_in(evaluation, rollout), text=f"{MARK} note")
    view = save_view(user=alice, of=target_of(evaluation), name=f"{MARK} view", query={"label": MARK})
    training = create_run(alice, training_request(name=f"{MARK}-training", environment=f"{MARK}-env"))
    training_token = start_training(training)
    finished = step_report(1, prompt=asked)
    report_step(training=training, report=finished, guard=lambda: Run.objects.get(pk=training.run_id))
    of, first = target_of_training(training), get_training_rollout(training, 1, 0)
    training_note = add_note(user=alice, of=of, place=place_in_training(training, first, 1), text=f"{MARK} note")
    training_view = save_view(user=alice, of=of, name=f"{MARK} view", query={"label": MARK})
    Authenticator.objects.create(user=alice, type="webauthn", data={"name": f"{MARK} passkey", "credential": {}})
    watched = ScoreWatchRequest(model=f"{MARK}/model", below=0.5)
    watch_scores(user=alice, environment=version.environment, request=watched)
    tell(users=[alice.pk], kind=NoticeKind.HUB, text=f"{MARK} notice")
    set_secret(owner=alice.owner, name=f"{MARK.upper()}_KEY", value="value", user=alice)
    push = begin_push(owner=alice.owner, user=alice, request=build_pair(f"{MARK}-env", "0.3.0").request()).push
    worker_token, token_row = make_worker_token()
    worker = make_worker(token_row)
    run = make_run(owner=alice.owner, kind=RunKind.EVAL, subject=f"alice/{MARK}-env@0.1.0")
    run_token = hold_run(run, worker=worker, state=RunState.RUNNING)
    later = timezone.now() + timedelta(hours=1)  # to walk all routes takes longer than a report is believed
    sandbox = create_running(alice, name=f"{MARK}-sandbox")
    sandbox.port_rows.create(number=80, expires_at=later)
    inside = LiveSandbox(id=str(sandbox.pk), image=f"{MARK}-image", state="running", created_at=timezone.now())
    team = make_owner(f"{MARK}-team", members=[alice], role=Role.OWNER)
    Membership.objects.create(owner=team, user=make_user("carol"), role=Role.MEMBER)
    open_team = make_owner("open-team", members=[alice], role=Role.OWNER)
    note_sandboxes(run=run, report=LiveReport(living=1, items=(inside,)), now=later)
    return World(
        alice=alice,
        bob=bob,
        root=root,
        version=version,
        evaluation=evaluation,
        evaluation_token=evaluation_token,
        note=note,
        view=view,
        delivery=send_test(user=alice, webhook=webhook),
        link=create_link(user=alice, request=ShareLinkRequest(evaluations=(str(evaluation.pk),), note=MARK))[0],
        training=training,
        training_token=training_token,
        training_note=training_note,
        training_view=training_view,
        deployment=ensure_deployment(model=create_trainable(alice.owner, f"{MARK}-weights"), user=alice),
        sandbox=sandbox,
        image=create_image(alice.owner, f"{MARK}-image:1"),
        push_id=str(push.pk),
        token=create_token(user=alice, name=MARK, scopes=[Scope.READ])[1],
        team=team,
        invitation=invite_to_team(user=alice, team=team, role=Role.READER).invitation,
        join_secret=invite_to_team(user=alice, team=open_team, role=Role.READER).url.rpartition("/")[2],
        run=run,
        run_token=run_token,
        foreign_run_token=hold_run(make_run(owner=bob.owner), worker=worker),
        worker=worker,
        worker_token=worker_token,
    )


def kwargs_of(world: World, route: str) -> dict[str, Any]:
    """What each URL argument is in the private world; some names mean different things below different paths."""
    known: dict[str, Any] = {
        "owner": "alice",
        "name": f"{MARK}-env",
        "version": world.version.version,
        "kind": "wheel",
        "push_id": world.push_id,
        "project": f"{MARK}-env",
        "sha256": world.version.wheel_id,
        "filename": world.version.wheel_filename,
        "evaluation_id": world.evaluation.pk,
        "other_id": world.evaluation.pk,
        "training_id": world.training.pk,
        "deployment_id": world.deployment.pk,
        "sandbox_id": world.sandbox.pk,
        "image_id": world.image.pk,
        "port_id": world.sandbox.port_rows.get().pk,
        "pid": 1,
        "pk": Authenticator.objects.get(user=world.alice).pk,
        "step": 1,
        "index": 0,
        "example": 0,
        "rollout": 0,
        "label": MARK,
        "note_id": world.note.pk,
        "webhook_id": world.delivery.webhook_id,
        "delivery_id": world.delivery.pk,
        "notice_id": Notice.objects.get(user=world.alice).pk,
        "view_id": world.view.pk,
        "watch_id": ScoreWatch.objects.get(user=world.alice).pk,
        "number": 0,
        "picture": 0,
        "side": 0,
        "link_id": world.link.pk,
        "run_id": world.run.pk,
        "worker_id": world.worker.pk,
        "token_id": world.token.pk,
        "team": world.team.slug,
        "user": "carol",
        "invitation_id": world.invitation.pk,
        "secret": "no-such-link",
        "key": "no-such-link",
        "uidb36": "1",
        "provider_id": "sso",
        "plural": "datasets",
        "repository": "some/data",
        "slug": "numbers",
        "revision": "main",
        "folder": "",
        "path": "x.parquet",
    }
    if route.startswith(("api/v1/users", "settings/users")):
        known["name"] = "bob"
    if route.startswith("api/v1/former-names"):
        known["name"] = f"{MARK}-was"
    if route.startswith(("api/v1/training", "training/")):
        known |= {"note_id": world.training_note.pk, "view_id": world.training_view.pk}
    if route.startswith("join/"):
        known["secret"] = world.join_secret
    if route.startswith("api/v1/data"):
        known["kind"] = "dataset"
    if route.startswith(("api/v1/models", "models/", "inference/v1/models")):
        known["name"] = f"{MARK}-model"
    if route.startswith(("api/v1/secrets", "settings/secrets")):
        known["name"] = f"{MARK.upper()}_KEY"
    return known
