"""The option that names an owner, a user or a team: declared here alone, so that every command takes both names."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def owner_option(explained: str) -> Any:
    """`--owner` or `--team`, as people know it from elsewhere."""
    return typer.Option("--owner", "--team", help=explained)


OnlyOwner = Annotated[str | None, owner_option("Only this owner's.")]  # of lists
Owner = Annotated[str | None, owner_option("Whose (default: yours).")]  # of what a command makes or reads
