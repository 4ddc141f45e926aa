"""Arguments that are ids, whole or by their first characters, or addresses of pages; and indexes."""

from __future__ import annotations

from collections.abc import Callable

import typer

from envhub.cli.terminal.session import Session, current
from envhub.cli.terminal.short_ids import SHORTEST, id_in, is_whole
from envhub.errors import UsageError


def id_of(noun: str, listing: str, whole: Callable[[Session, str], str] | None = None) -> Callable[..., str]:
    """A callback for an argument: the id in what was typed. Raises UsageError that names `listing`, which shows ids.

    `whole` asks the hub for the whole id, for commands that make several calls: by the second one, something new may
    begin alike.
    """

    def read(ctx: typer.Context, text: str) -> str:
        if ctx.resilient_parsing:  # a shell completes what comes after it
            return text
        found = id_in(text)
        if not found:
            hint = f"`{listing}` shows ids; their first {SHORTEST} or more characters are enough."
            raise UsageError(f"{text!r} is not the id of {noun}", hint=hint)
        return found if is_whole(found) or whole is None else whole(current(ctx), found)

    return read


def index(text: str) -> int:
    """A parser for an argument: typer by itself takes 0.0 for 0, and -1. Raises typer.BadParameter."""
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text!r} is not an index: 0, 1, 2, ...")
    return int(text)
