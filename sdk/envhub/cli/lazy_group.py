"""A group of commands whose modules are imported when one of them is asked for.

`hub whoami` must not pay for Parquet and build back-ends: importing all commands takes a second, one a fifth of that.
Nor must `hub --help`: a list of commands reads their docstrings from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module, resources
from typing import Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as to_command

from envhub.errors import UsageError
from envhub.packaging.syntax import parse

WHOLE = 1000  # characters of a help text: all of its first sentence
OTHER_NAMES = {  # what other command lines call it -> here, the first that the group has
    "rl": ("train",), "environments": ("env",), "inference": ("model",), "get": ("show", "info"),
    "status": ("show", "info"), "samples": ("rollouts",), "progress": ("show",), "distributions": ("metrics",),
    "stop": ("cancel",), "restart": ("resume",), "create": ("add", "init", "invite", "token"), "build": ("push",),
    "import": ("add",), "view": ("show",), "show": ("info",), "info": ("show",),
}  # fmt: skip
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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As click does it; a name that does not exist is told with the one that was probably meant."""
        if args and args[0] not in self.table and not args[0].startswith("-"):
            raise self._unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: Any, name: str) -> UsageError:
        names = self.list_commands(ctx)
        meant = [other for other in OTHER_NAMES.get(name, ()) if other in names][:1] or get_close_matches(name, names)
        hint = " or ".join(f"`{ctx.command_path} {other}`" for other in meant)
        return UsageError(
            f"no such command: {ctx.command_path} {name}",
            hint=f"Did you mean {hint}?" if hint else f"`{ctx.command_path} --help` lists the commands.",
        )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each with its whole first sentence; click's own table cuts them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(self.table[name])) for name in self.list_commands(ctx)])


def summary(entry: str | Mapping[str, str]) -> str:
    """The first sentence about a command or a group."""
    text = _docstring(*entry.split(":")) if isinstance(entry, str) else entry[""]
    return TyperCommand(None, help=text).get_short_help_str(WHOLE)


def _docstring(module: str, function: str) -> str:
    *folders, name = module.split(".")
    source = resources.files(__package__).joinpath(*folders, f"{name}.py").read_text(encoding="utf-8")
    found = [node for node in parse(source).body if isinstance(node, ast.FunctionDef) and node.name == function]
    return ast.get_docstring(found[0]) or ""


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
