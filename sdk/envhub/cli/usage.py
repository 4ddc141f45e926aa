"""`hub usage`."""

from __future__ import annotations

import typer
from rich.filesize import decimal

from envhub.cli.terminal.owners import OnlyOwner
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import UsageError
from envhub.protocol.accounts.usage import USAGE_DAYS, UsageView
from envhub.protocol.models.money import dollars


def usage(ctx: typer.Context, owner: OnlyOwner = None, json: JsonFlag = False) -> None:
    """Show what your runs have used in the last 30 days, and their limits."""
    session = current(ctx)
    found = session.hub.usage.get()
    if owner is not None:
        kept = tuple(one for one in found.owners if one.owner == owner)
        if not kept:
            hint = f"Your owners: {', '.join(one.owner for one in found.owners)}."
            raise UsageError(f"the owner {owner} does not exist or is not yours", hint=hint)
        found = found.model_copy(update={"owners": kept})
    session.show(found, lambda: _print(session, found.owners))


def _print(session: Session, owners: tuple[UsageView, ...]) -> None:
    rows = [
        (owner.owner, row.kind, f"{row.run_seconds / 3600:.2f}", f"{row.cpu_seconds / 3600:.2f}",
         f"{row.gpu_seconds / 3600:.2f}",
         f"{row.prompt_tokens:,}", f"{row.completion_tokens:,}")
        for owner in owners for row in owner.kinds
    ]  # fmt: skip
    columns = ("owner", "runs", "hours", "CPU hours", "GPU hours", "prompt tokens", "output tokens")
    session.table(columns, rows, f"nothing in the last {USAGE_DAYS} days")
    models = [
        (owner.owner, one.model, f"{one.prompt_tokens:,}", f"{one.completion_tokens:,}", dollars(one.cost or None))
        for owner in owners for one in owner.models
    ]  # fmt: skip
    if models:
        session.table(("owner", "model", "prompt tokens", "output tokens", "cost"), models)
    for owner in owners:
        limit = f" of {decimal(owner.stored_limit)}" if owner.stored_limit else ""
        session.note(f"{owner.owner}: {decimal(owner.stored_bytes)}{limit} stored")
        if owner.gpu_hours_limit is not None:
            session.note(f"{owner.owner}: {owner.gpu_hours:.1f} of {owner.gpu_hours_limit:g} GPU hours")
        if owner.at_once:
            session.note(f"{owner.owner}: at most {owner.at_once} at once")
        if owner.tokens_limit is not None:
            session.note(f"{owner.owner}: {owner.tokens:,} of {owner.tokens_limit:,} tokens")
