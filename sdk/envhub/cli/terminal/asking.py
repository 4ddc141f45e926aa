"""The question before something is deleted, and the flag that answers it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from envhub.cli.terminal.session import Session
from envhub.errors import UsageError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def ask_to_delete(session: Session, what: str, *, yes: bool) -> None:
    """Returns when it may go; ends the command (exit 1) when the answer is no.

    Raises UsageError where nobody can answer.
    """
    if yes:
        return
    if session.json or not sys.stdin.isatty():
        raise UsageError(f"nobody can be asked whether to delete {what}", hint="Pass --yes.")
    typer.confirm(f"Delete {what}?", abort=True, err=True)
