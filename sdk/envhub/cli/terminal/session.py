"""What every command has at hand: the client, the choice between tables and JSON, and where to print."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TextIO

import httpx
import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape

from envhub.cli.terminal.command_trace import traceparent
from envhub.cli.terminal.configuration import Configuration, config_path, read_configuration
from envhub.cli.terminal.paging import Held, is_paged, print_paged
from envhub.cli.terminal.tables import AS_IT_IS, Fit, Grid, print_grid
from envhub.client import HubClient
from envhub.client.connection import Retry
from envhub.errors import EnvhubError

PIPE_WIDTH = 1000


@dataclass
class Session:
    """One invocation of `hub`. Tests pass their own with a transport; `typer` gives it to commands as `ctx.obj`."""

    transport: httpx.BaseTransport | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    config_file: Path = field(default_factory=config_path)
    json: bool = False
    pager: bool = True  # for what is longer than the terminal
    _held: Held | None = None
    _told: set[str] = field(default_factory=set)

    @cached_property
    def configuration(self) -> Configuration:
        """The hub to talk to."""
        found = read_configuration(self.environ, self.config_file)
        if found.unread:
            self.note(f"note: {found.unread}; it is not used")
        return found

    @cached_property
    def hub(self) -> HubClient:
        """The client, made at first use."""
        return self.connect(self.configuration.url, self.configuration.token)

    def connect(self, url: str, token: str | None) -> HubClient:
        """A client that says on standard error what it waits for."""
        return HubClient(url, token, self.transport, Retry(notice=self._waiting), traceparent(self.environ))

    def _waiting(self, problem: str) -> None:
        """Said once: who looks at a terminal would otherwise see nothing for seconds."""
        if problem not in self._told:
            self._told.add(problem)
            self.note(f"{problem}; trying again")

    @cached_property
    def me(self) -> str:
        """The caller's own owner slug."""
        return self.hub.accounts.me().user

    @property
    def owner(self) -> str:
        """For whom a command acts that names nobody: what `hub team use` or HUB_OWNER says, else the caller."""
        return self.configuration.owner or self.me

    @property
    def out(self) -> Console:
        """Standard output."""
        return _console(self._stdout)

    @property
    def _stdout(self) -> TextIO:
        return self._held or sys.stdout

    @contextmanager
    def paged(self) -> Iterator[None]:
        """What is printed within goes through the pager if it is longer than the terminal."""
        if self.json or not self.pager or self._held is not None or not is_paged(self.environ):
            yield
            return
        self._held = held = Held()
        try:
            yield
        finally:
            self._held = None
            print_paged(held.getvalue(), self.environ)

    @property
    def err(self) -> Console:
        """Standard error: progress, notes and failures."""
        return _console(sys.stderr)

    def note(self, text: str) -> None:
        """One line for people; silent under --json."""
        if not self.json:
            self.err.print(escape(printable(text)))

    def write(self, text: str) -> None:
        """Text of a package or a log to standard output: as it is into a pipe, without escape codes on a terminal."""
        self._stdout.write(printable(text) if self._stdout.isatty() else text)
        self._stdout.flush()

    def show(self, value: object, human: Callable[[], Any]) -> None:
        """Print `value` as JSON, or what `human` prints."""
        if self.json:
            sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=not _has_all(sys.stdout)) + "\n")
        else:
            with self.paged():
                human()

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        empty: str = "nothing here yet",
        fit: Fit = AS_IT_IS,
    ) -> None:
        """A plain table; numbers to the right. `fit` says what gives way on a narrow terminal."""
        listed = tuple(tuple(cell(value) for value in row) for row in rows)
        if not listed:
            self.err.print(escape(empty), style="dim")
            if not self.configuration.token:
                self.note("you are not logged in, and see only what is public: `hub login`")
            return
        grid = Grid(tuple(columns), listed, fit)
        # what is wider than the terminal in any case is wrapped by it: its lines can be copied as they are
        if dropped := print_grid(grid, self.out, _console(self._stdout, PIPE_WIDTH)):
            self.err.print(f"left out: {', '.join(dropped)} (a wider terminal has room; --json has all)", style="dim")

    def fields(self, pairs: Mapping[str, object]) -> None:
        """Aligned `name  value` lines; empty values are left out."""
        shown = {name: cell(value) for name, value in pairs.items() if value not in (None, "", ())}
        width = max((len(name) for name in shown), default=0)
        for name, value in shown.items():
            self.out.print(f"[dim]{name:<{width}}[/dim]  {escape(value)}")

    def fail(self, error: EnvhubError) -> None:
        """Print an error with its hint (as JSON under --json) on standard error."""
        if self.json:
            body = {"code": error.code, "message": error.message, "hint": error.hint, "fields": error.fields}
            sys.stderr.write(json.dumps({"error": body}, ensure_ascii=not _has_all(sys.stderr)) + "\n")
            return
        self.err.print(f"[bold red]error:[/bold red] {escape(printable(error.message))}")
        for name, text in error.fields.items():
            if error.message.endswith(f": {text}"):  # said already
                continue
            self.err.print(f"  {escape(name)}: {escape(printable(text))}")
        if error.hint:
            self.err.print(f"[bold]hint:[/bold] {escape(error.hint)}")


def _has_all(stream: TextIO) -> bool:
    """Whether every character can be written."""
    return stream.encoding.lower().replace("-", "") == "utf8"


def _console(stream: TextIO, width: int | None = None) -> Console:
    """Off a terminal a row of a table is one line, whatever its length."""
    width = width if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, highlight=False, width=width, soft_wrap=width is not None)


def plain(value: object) -> Any:
    """Wire types, lists and mappings of them as JSON values."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def cell(value: object) -> str:
    """One value for a table."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M}"  # on the reader's clock
    return printable(str(value))


def printable(text: str) -> str:
    """Without control characters: what a package wrote must not move the cursor or rename the window."""
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cs"})


def current(ctx: typer.Context) -> Session:
    """The session of a command's context."""
    session = ctx.find_root().obj
    assert isinstance(session, Session)
    return session


def _set_json(ctx: typer.Context, value: bool) -> bool:
    if value:
        current(ctx).json = True
    return value


JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output.", callback=_set_json, is_eager=False)
]
