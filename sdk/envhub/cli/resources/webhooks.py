"""`hub webhook create|list|deliveries|test|again|enable|delete`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.protocol.accounts.webhooks import CHOICES, WebhookEvent, WebhookRequest


def _whole(session: Session, beginning: str) -> str:
    return session.hub.webhooks.get(beginning).id


Owner = Annotated[str | None, owner_option("Whose webhooks (default: yours).")]
WEBHOOK = id_of("a webhook", "hub webhook list", _whole)
WebhookId = Annotated[
    str, typer.Argument(help="The webhook's id (the first characters are enough) or address.", callback=WEBHOOK)
]
SENT = Fit(drop=("seconds", "attempts"), wrap=("answer",))


def create(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="Where to send: https://...")],
    event: Annotated[
        list[WebhookEvent] | None,
        typer.Option("--event", help="Event to send (repeat; default: every event)."),
    ] = None,
    owner: Owner = None,
    json: JsonFlag = False,
) -> None:
    """Create a webhook. Its secret is shown only once."""
    session = current(ctx)
    request = WebhookRequest(url=url, events=tuple(event or CHOICES))
    made = session.hub.webhooks.create(request, owner or session.owner)
    session.show(made, lambda: session.out.print(f"{made.webhook.id}\nsecret {made.secret}", markup=False))


def list_webhooks(ctx: typer.Context, owner: Owner = None, json: JsonFlag = False) -> None:
    """List webhooks, newest first."""
    session = current(ctx)
    found = list(session.hub.webhooks.list(owner or session.owner))
    rows = [(item.id, item.url, ", ".join(item.events), f"disabled: {item.disabled_why}" if item.disabled_at
             else "enabled", item.succeeded_at) for item in found]  # fmt: skip
    session.show(found, lambda: session.table(("id", "url", "events", "state", "delivered"), rows, "no webhooks"))


def deliveries(
    ctx: typer.Context,
    webhook_id: WebhookId,
    limit: Annotated[int, typer.Option(min=1)] = 30,
    json: JsonFlag = False,
) -> None:
    """List deliveries, newest first, with their outcome."""
    session = current(ctx)
    found = list(islice(session.hub.webhooks.deliveries(webhook_id), limit))
    rows = [(item.id, item.event, item.state, item.status, item.problem or item.answer, item.attempts,
             item.duration_s, item.created_at) for item in found]  # fmt: skip
    columns = ("id", "event", "state", "status", "answer", "attempts", "seconds", "made")
    session.show(found, lambda: session.table(columns, rows, "nothing was sent yet", SENT))


def send_test(ctx: typer.Context, webhook_id: WebhookId, json: JsonFlag = False) -> None:
    """Send a test message."""
    session = current(ctx)
    sent = session.hub.webhooks.test(webhook_id)
    session.show(sent, lambda: session.out.print(f"queued; `hub webhook deliveries {webhook_id}` says what came of it"))


def again(
    ctx: typer.Context,
    webhook_id: WebhookId,
    delivery_id: Annotated[str, typer.Argument(help="As listed by `hub webhook deliveries`.")],
    json: JsonFlag = False,
) -> None:
    """Send a message again, under the same id."""
    session = current(ctx)
    sent = session.hub.webhooks.again(webhook_id, delivery_id)
    session.show(sent, lambda: session.out.print("queued"))


def enable(
    ctx: typer.Context,
    webhook_id: WebhookId,
    enabled: Annotated[bool, typer.Option("--enable/--disable")] = True,
    json: JsonFlag = False,
) -> None:
    """Enable a webhook that was disabled, or disable it."""
    session = current(ctx)
    view = session.hub.webhooks.enable(webhook_id, enabled)
    session.show(view, lambda: session.out.print("disabled" if view.disabled_at else "enabled"))


def delete(ctx: typer.Context, webhook_id: WebhookId, yes: Yes = False, json: JsonFlag = False) -> None:
    """Delete a webhook with its log."""
    session = current(ctx)
    ask_to_delete(session, f"webhook {webhook_id}", yes=yes)
    session.hub.webhooks.delete(webhook_id)
    session.show({"deleted": webhook_id}, lambda: session.out.print("deleted"))
