"""`hub secret list|set|delete`. Values come from a prompt or standard input, never from the command line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.session import JsonFlag, current
from envhub.errors import UsageError
from envhub.protocol.accounts.secrets import SecretRequest

Owner = Annotated[str | None, owner_option("Whose secrets (default: yours).")]
Name = Annotated[str, typer.Argument(help="Like an environment variable: MY_API_KEY.")]


def list_secrets(ctx: typer.Context, owner: Owner = None, json: JsonFlag = False) -> None:
    """List names; values are never shown."""
    session = current(ctx)
    found = list(session.hub.secrets.list(owner or session.owner))
    rows = [(item.name, item.updated_at, item.created_by) for item in found]
    session.show(found, lambda: session.table(("name", "changed", "by"), rows, "no secrets"))


def set_secret(ctx: typer.Context, name: Name, owner: Owner = None, json: JsonFlag = False) -> None:
    """Set a secret: typed at a prompt, or piped in (`printf %s "$KEY" | hub secret set NAME`)."""
    session = current(ctx)
    value = _ask(name) if sys.stdin.isatty() else _piped()
    if not value:
        raise UsageError("the value is empty", hint="Pipe it in, or type it at the prompt.")
    view = session.hub.secrets.put(owner or session.owner, name, SecretRequest(value=value))
    session.show(view, lambda: session.out.print(f"{name} is set"))


def delete(ctx: typer.Context, name: Name, owner: Owner = None, yes: Yes = False, json: JsonFlag = False) -> None:
    """Delete a secret."""
    session = current(ctx)
    ask_to_delete(session, f"secret {name}", yes=yes)
    session.hub.secrets.delete(owner or session.owner, name)
    session.show({"deleted": name}, lambda: session.out.print(f"deleted {name}"))


def _ask(name: str) -> str:
    return str(typer.prompt(name, hide_input=True, err=True))


def _piped() -> str:
    """What is piped in, without the end of its last line. Raises UsageError for what no variable can hold."""
    try:
        value = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            "the value is not UTF-8 text, but boxes receive it as an environment variable",
            hint="Pipe it through `base64`, and decode it in the environment.",
        ) from error
    return value.removesuffix("\n").removesuffix("\r")
