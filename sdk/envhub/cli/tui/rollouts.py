"""The rollouts of an evaluation, of a training step, or of a directory."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import DataTable, Footer, Header, Static

from envhub.cli.tui.listings import PAGE, Entry, Listing
from envhub.cli.tui.reader import Reader
from envhub.cli.tui.screens import EVERY_S, HubScreen, Table
from envhub.cli.tui.texts import plain, state


class RolloutScreen(HubScreen):
    """A table with rewards; Enter reads one, n goes to the next that failed, m loads more."""

    BINDINGS = [
        Binding("escape,h", "app.pop_screen", "Back"),
        Binding("n", "next_failed", "Next failed"),
        Binding("m", "more", "More"),
        Binding("r", "reload", "Refresh"),
    ]

    def __init__(self, listing: Listing) -> None:
        super().__init__()
        self._listing = listing
        self._rows: list[Entry] = []
        self._most = PAGE
        self._has_more = False
        self._is_final = False

    def compose(self) -> ComposeResult:
        """The table under its title."""
        yield Header()
        yield Static(plain(self._listing.title), id="about")
        yield Table(
            "rollout", "outcome", "reward", "tokens", "prompt", "answer", id="rollouts", empty="no rollouts yet"
        )
        yield Footer()

    async def on_mount(self) -> None:
        """Fill it, and again while more come."""
        await self.action_reload()
        self.set_interval(EVERY_S, self._follow)

    async def action_reload(self) -> None:
        """Ask for the rollouts again."""
        final = await self.ask(self._listing.is_final)  # before the rows: none comes after
        found = await self.ask(lambda: self._listing.rows(self._most + 1))
        if found is None:
            return
        rows, self._has_more = found[: self._most], len(found) > self._most
        self._rows, self._is_final = rows, bool(final)
        self.query_one(Table).fill([_cells(row) for row in rows])
        failed = sum(row.failed for row in rows)
        counts = f"{len(rows):,} rollouts, {failed:,} failed" if rows else "no rollouts yet"
        if self._has_more:
            counts = f"the first {counts}; press m for {PAGE:,} more"
        self.query_one("#about", Static).update(plain(f"{self._listing.title}: {counts}"))

    async def _follow(self) -> None:
        if self.is_current and not self._is_final:
            await self.action_reload()

    async def action_more(self) -> None:
        """Show more of them."""
        if not self._has_more:
            self.notify("These are all.")
            return
        self._most += PAGE
        await self.action_reload()

    def action_next_failed(self) -> None:
        """Move to the next rollout that failed."""
        table = self.query_one(Table)
        place = next((at for at in range(table.cursor_row + 1, len(self._rows)) if self._rows[at].failed), None)
        if place is None:
            self.notify("No failed rollout below." + (" Press m to load more." if self._has_more else ""))
        else:
            table.move_cursor(row=place)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Read it."""
        if self._rows:
            self.app.push_screen(Reader(self._listing.title, self._rows, event.cursor_row))


def _cells(row: Entry) -> list[object]:
    texts = (row.reward, row.tokens, row.asked[:60], row.answered[:60])
    return [plain(row.label), state(row.outcome), *(plain(one) for one in texts)]
