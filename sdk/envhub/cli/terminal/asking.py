"""The question before something is deleted, and the flag that answers it."""

from __future__ import annotations

from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def ask_to_delete(what: str, *, yes: bool) -> None:
    """Returns when it may go; ends the command (exit 1) when the answer is no."""
    if not yes:
        typer.confirm(f"Delete {what}?", abort=True, err=True)
