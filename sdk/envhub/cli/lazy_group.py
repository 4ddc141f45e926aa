"""A group of commands whose modules are imported when one of them is asked for.

`hub whoami` must not pay for Parquet and build back-ends: importing all commands takes a second, one a fifth of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeAlias

import typer
from typer.core import TyperGroup
from typer.main import get_command as to_command

WHOLE = 1000  # characters of a help text: all of its first sentence
Table: TypeAlias = Mapping[str, "str | Mapping[str, str]"]


class LazyGroup(TyperGroup):
    """Looks its commands up in `table`."""

    table: Table = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """In the table's order; "" is the group's own help."""
        return [name for name in self.table if name]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and make the command, None when there is none of this name."""
        entry = self.table.get(cmd_name)
        if not cmd_name or entry is None:
            return None
        if isinstance(entry, str):
            return _command(cmd_name, entry)
        return _group(cmd_name, entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each with its whole first sentence; click's own table cuts them."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(WHOLE)) for name, command in commands])


def _command(name: str, target: str) -> Any:
    module, _, function = target.partition(":")
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name)(getattr(import_module(f"envhub.cli.{module}"), function))
    command = to_command(single)
    command.name = name
    return command


def _group(name: str, table: Mapping[str, str]) -> Any:
    kind = type("Group", (LazyGroup,), {"table": table})
    group = typer.Typer(
        cls=kind, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    group.callback()(_nothing)
    made = to_command(group)
    made.name, made.help = name, table[""]
    return made


def _nothing() -> None:
    """A group does nothing by itself."""
