"""Writes of webhooks. Messages are written in the transaction of what they tell; `hub.webhooks.sender` sends them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.conf import settings
from django.db import transaction
from envhub.client.outside.addresses import OutboundRefused
from envhub.client.outside.ways import way
from envhub.protocol.accounts.webhooks import (
    DeliveryState,
    WebhookBody,
    WebhookEvent,
    WebhookNote,
    WebhookRequest,
    WebhookRun,
    WebhookScore,
)
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.runs import Failure, RunKind, RunState

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.catalog.targets import outbound_policy
from hub.core import clock
from hub.core.errors import Conflict, Invalid
from hub.notices.services import tell_hub
from hub.registry.models import Version
from hub.runs.models import Run
from hub.secrets.services import encrypt
from hub.webhooks.models import Delivery, Webhook
from hub.webhooks.queries import MOST, webhooks_of
from hub.webhooks.signing import new_secret

_FINISHED = {RunKind.EVAL: WebhookEvent.EVALUATION_FINISHED, RunKind.TRAIN: WebhookEvent.TRAINING_FINISHED}
_BUILT = {VersionState.READY: WebhookEvent.VERSION_READY, VersionState.INVALID: WebhookEvent.VERSION_INVALID}


def create_webhook(*, user: User, owner: Owner, request: WebhookRequest) -> tuple[Webhook, str]:
    """Make a webhook; its secret is shown once. Raises NotAllowed, Invalid (its address), Conflict (too many)."""
    require_role(user, owner, Role.MAINTAINER)
    try:
        way(outbound_policy(), request.url)
    except OutboundRefused as error:
        raise Invalid(error.message, code=error.code, hint=error.hint, fields={"url": request.url}) from error
    if webhooks_of(user, owner).count() >= MOST:
        raise Conflict(f"{owner.slug} already has {MOST} webhooks", code="too_many_webhooks", hint="delete one first")
    secret = new_secret()
    made = Webhook.objects.create(
        owner=owner,
        url=request.url,
        events=[event.value for event in request.events],
        encrypted_secret=encrypt(secret),
        created_by=user,
    )
    return made, secret


def delete_webhook(*, user: User, webhook: Webhook) -> None:
    """Delete it with its messages. Raises NotAllowed."""
    require_role(user, webhook.owner, Role.MAINTAINER)
    webhook.delete()


def enable_webhook(*, user: User, webhook: Webhook, enabled: bool = True) -> None:
    """Send again what happens from now on, or stop. Raises NotAllowed."""
    require_role(user, webhook.owner, Role.MAINTAINER)
    if enabled:
        Webhook.objects.filter(pk=webhook.pk).update(disabled_at=None, disabled_why="")
    else:
        _stop(webhook, f"{user.username} disabled it")


def send_test(*, user: User, webhook: Webhook) -> Delivery:
    """Send a message of no meaning, once. Raises NotAllowed, Conflict while it is disabled."""
    require_role(user, webhook.owner, Role.MAINTAINER)
    _require_enabled(webhook)
    body = WebhookBody(type=WebhookEvent.TEST, timestamp=clock.now())
    return Delivery.objects.create(
        webhook=webhook, event=WebhookEvent.TEST.value, body=body.model_dump_json(), due_at=clock.now()
    )


def send_again(*, user: User, webhook: Webhook, delivery: Delivery) -> Delivery:
    """Send a message again, under the same id. Raises NotAllowed, Conflict while the webhook is disabled."""
    require_role(user, webhook.owner, Role.MAINTAINER)
    _require_enabled(webhook)
    delivery.state, delivery.attempts, delivery.due_at = DeliveryState.WAITING.value, 0, clock.now()
    delivery.save(update_fields=["state", "attempts", "due_at"])
    return delivery


def tell_webhooks(run: Run) -> None:
    """`hub.runs.endings`: a message for each webhook of the run's owner and each of its events that has happened."""
    if run.parent_id is not None:
        return
    if webhooks := _webhooks(run.owner_id):
        for event in _events(run):
            _send(webhooks, event, _about(run))


def tell_webhooks_of(event: WebhookEvent, *, owner_id: UUID, data: WebhookScore | WebhookNote) -> None:
    """Queue a message for each webhook of the owner that wants such events; call it in the event's transaction.

    `url` in the data is the path of a page; the message has its whole address.
    """
    whole = data.model_copy(update={"url": _address(data.url)})
    _send(_webhooks(owner_id), event, whole)


def _webhooks(owner_id: UUID) -> list[Webhook]:
    return list(Webhook.objects.filter(owner=owner_id, disabled_at__isnull=True).order_by("pk")[:MOST])


def _send(webhooks: Iterable[Webhook], event: WebhookEvent, data: WebhookRun | WebhookScore | WebhookNote) -> None:
    now = clock.now()
    body = WebhookBody(type=event, timestamp=now, data=data).model_dump_json()
    wanting = [webhook for webhook in webhooks if event.value in webhook.events]
    Delivery.objects.bulk_create(
        Delivery(webhook=webhook, event=event.value, body=body, due_at=now) for webhook in wanting
    )


def _address(path: str) -> str:
    return f"{str(settings.HUB.base_url).rstrip('/')}{path}"


def disable_failing(*, webhook: Webhook, why: str) -> None:
    """Stop sending to an address that does not answer, and tell whoever made the webhook."""
    with transaction.atomic():
        if _stop(webhook, why):
            tell_hub(
                user=webhook.created_by_id,
                text=f"The webhook {webhook.url[:200]} is disabled",
                detail=why,
                url=f"/settings/webhooks/{webhook.pk}",
            )


def _stop(webhook: Webhook, why: str) -> bool:
    """Whether it was not disabled before. What waits is given up: it can be sent again one by one."""
    rows = Webhook.objects.filter(pk=webhook.pk, disabled_at__isnull=True)
    stopped = rows.update(disabled_at=clock.now(), disabled_why=why[:200]) == 1
    waiting = Delivery.objects.filter(webhook=webhook, state=DeliveryState.WAITING.value)
    waiting.update(state=DeliveryState.FAILED.value, due_at=None, problem="the webhook was disabled")
    return stopped


def _require_enabled(webhook: Webhook) -> None:
    if webhook.disabled_at is not None:
        raise Conflict("the webhook is disabled", code="webhook_disabled", hint="enable it first")


def _events(run: Run) -> list[WebhookEvent]:
    kind, found = RunKind(run.kind), []
    if event := _FINISHED.get(kind):
        found.append(event)
    if run.state == RunState.FAILED:
        found.append(WebhookEvent.RUN_FAILED)
    if kind is RunKind.BUILD:
        states = Version.objects.filter(build_run=run).values_list("state", flat=True)
        found += [_BUILT[VersionState(state)] for state in states if VersionState(state) in _BUILT]
    return found


def _about(run: Run) -> WebhookRun:
    return WebhookRun(
        id=str(run.pk),
        kind=RunKind(run.kind),
        state=RunState(run.state),
        owner=run.owner.slug,
        subject=run.subject,
        url=_address(run.subject_url or f"/runs/{run.pk}"),
        started_by=run.created_by.username,
        failure=Failure.model_validate(run.failure) if run.failure else None,
    )
