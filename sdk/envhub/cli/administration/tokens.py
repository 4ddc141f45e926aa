"""`hub token list|create|revoke`."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.session import JsonFlag, current
from envhub.cli.terminal.tables import Fit
from envhub.protocol.accounts.users import Scope, TokenRequest

_SCOPES = f"<{'|'.join(Scope)}>"
LISTED = Fit(drop=("last used", "token", "scopes", "acts for", "expires"))
DEFAULT_SCOPES = [Scope.READ, Scope.WRITE, Scope.INFERENCE]


def list_tokens(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List your tokens (without their secrets)."""
    session = current(ctx)
    found = list(session.hub.accounts.tokens())
    rows = [(item.id, item.name, f"{item.prefix}...", item.scopes, item.owner or "all", item.expires_at,
             item.last_used_at, "revoked" if item.revoked else "") for item in found]  # fmt: skip
    columns = ("id", "name", "token", "scopes", "acts for", "expires", "last used", "")
    session.show(found, lambda: session.table(columns, rows, fit=LISTED))


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is used for.")],
    scope: Annotated[list[Scope] | None, typer.Option(metavar=_SCOPES, help="What it may do (repeat).")] = None,
    owner: Annotated[str | None, owner_option("The only owner that it acts for (default: all of yours).")] = None,
    days: Annotated[int | None, typer.Option(help="Days until it expires.", min=1)] = 90,
    json: JsonFlag = False,
) -> None:
    """Create a token. It is shown only once."""
    session = current(ctx)
    request = TokenRequest(name=name, scopes=tuple(scope or DEFAULT_SCOPES), expires_in_days=days, owner=owner)
    made = session.hub.accounts.create_token(request)
    session.show(made, lambda: session.out.print(made.token, markup=False, soft_wrap=True))


def revoke(
    ctx: typer.Context,
    token_id: Annotated[str, typer.Argument(help="Its id.", callback=id_of("a token", "hub token list"))],
    json: JsonFlag = False,
) -> None:
    """End a token at once."""
    session = current(ctx)
    session.hub.accounts.revoke_token(token_id)
    session.show({"revoked": token_id}, lambda: session.out.print("revoked"))
