"""`hub quota list|set`: what one owner may use, for administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal.session import JsonFlag, current
from envhub.errors import UsageError
from envhub.protocol.accounts.quotas import QuotaRequest, QuotaView

COLUMNS = ("owner", "runs at once", "GPU hours", "tokens", "storage GB", "changed")


def list_quotas(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List the owners with a quota of their own; the hub's settings apply to all others."""
    session = current(ctx)
    found = session.hub.quotas.list()
    rows = [(*_cells(one), one.changed_at) for one in found]
    session.show(found, lambda: session.table(COLUMNS, rows, "no owner has a quota of its own"))


def set_quota(
    ctx: typer.Context,
    owner: Annotated[str, typer.Argument(help="The user or team.")],
    running: Annotated[int | None, typer.Option(min=0, help="Runs of each kind at once; 0: no limit.")] = None,
    gpu_hours: Annotated[float | None, typer.Option(min=0, help="GPU hours of 30 days; 0: no limit.")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="Tokens of 30 days; 0: no limit.")] = None,
    storage_gb: Annotated[float | None, typer.Option(min=0, help="GB stored; 0: no limit.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="First forget what the owner has of its own.")] = False,
    json: JsonFlag = False,
) -> None:
    """Set an owner's own quota. What no option names stays as it is."""
    session = current(ctx)
    named = {"running": running, "gpu_hours": gpu_hours, "tokens": tokens, "storage_gb": storage_gb}
    given = {name: value for name, value in named.items() if value is not None}
    if not given and not reset:
        raise UsageError("nothing to set", hint="Give --running, --gpu-hours, --tokens, --storage-gb or --reset.")
    before = {} if reset else session.hub.quotas.get(owner).model_dump(include=set(named))
    view = session.hub.quotas.set(owner, QuotaRequest.model_validate(before | given))
    session.show(view, lambda: session.table(COLUMNS[:-1], [_cells(view)]))


def _cells(view: QuotaView) -> tuple[object, ...]:
    figures = (view.running, view.gpu_hours, view.tokens, view.storage_gb)
    return (view.owner, *("hub's" if one is None else "no limit" if one == 0 else one for one in figures))
