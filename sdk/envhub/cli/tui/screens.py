"""What all screens share: a table that is filled by a call to the hub, again every few seconds while it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from textual.screen import Screen
from textual.widgets import DataTable

from envhub.cli.tui.texts import plain
from envhub.errors import EnvhubError

if TYPE_CHECKING:
    from envhub.cli.tui.app import Browser

Answer = TypeVar("Answer")
EVERY_S = 3.0


class HubScreen(Screen[None]):
    """A screen that asks the hub; what goes wrong is told at its foot and does not end the program."""

    @property
    def browser(self) -> Browser:
        """The application."""
        return cast("Browser", self.app)

    async def ask(self, question: Callable[[], Answer]) -> Answer | None:
        """The answer, from a thread, so that the screen does not stand still; None after an error, which is told."""
        try:
            return await asyncio.to_thread(question)
        except EnvhubError as error:
            self.notify(f"{error.message}\n{error.hint}".strip(), severity="error", markup=False)
        except OSError as error:
            self.notify(str(error), severity="error", markup=False)
        return None


class Table(DataTable[object]):
    """Rows that are chosen; refilling keeps the cursor where it was."""

    BINDINGS = [("j", "cursor_down", "Down"), ("k", "cursor_up", "Up")]

    def __init__(self, *columns: str, id: str, empty: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self._names, self._empty = columns, empty

    def on_mount(self) -> None:
        """Columns come before rows."""
        self.add_columns(*self._names)

    def fill(self, rows: list[list[object]]) -> None:
        """With the rows, or with what to do where there are none."""
        place = self.cursor_row
        self.clear()
        for row in rows or [[plain(self._empty, "dim"), *[""] * (len(self._names) - 1)]]:
            self.add_row(*row)
        if rows:
            self.move_cursor(row=min(place, len(rows) - 1), animate=False)
