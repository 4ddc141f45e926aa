"""One transcript: a fold for each turn, tool calls shut; the next rollouts are a key away.

A screen holds WINDOW turns; keys and the search move it over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Collapsible, Footer, Header, Input, Static

from envhub.cli.tui.listings import Entry
from envhub.cli.tui.screens import HubScreen
from envhub.cli.tui.texts import body, plain, title
from envhub.cli.tui.turns import Turn, turns_of
from envhub.packaging.conversation import ToolCall, conversation
from envhub.protocol.evals.rollouts import RolloutRecord

WINDOW = 400  # turns that one screen has
LINE = 90  # characters of a title


class Reader(HubScreen):
    """Moves among turns by j and k, among rollouts by J and K."""

    BINDINGS = [
        Binding("escape,h", "close", "Back"),
        Binding("j", "turn(1)", "Next turn"),
        Binding("k", "turn(-1)", "Previous", show=False),
        Binding("e", "fold", "Fold"),
        Binding("J", "rollout(1)", "Next rollout"),
        Binding("K", "rollout(-1)", "Previous rollout", show=False),
        Binding("n", "next_failed", "Next failed"),
        Binding("slash", "search", "Search"),
    ]

    def __init__(self, heading: str, rows: Sequence[Entry], place: int) -> None:
        super().__init__()
        self._heading, self._rows, self._place = heading, rows, place
        self._turns: list[Turn] = []
        self._about = ""
        self._start = 0  # the first turn on the screen
        self._at = 0  # the turn in sight, of all
        self._looked_for = ""

    def compose(self) -> ComposeResult:
        """Heading, transcript, and a line for what is searched."""
        yield Header()
        yield Static(id="about")
        yield VerticalScroll(id="transcript")
        yield Input(placeholder="Search all turns; Enter finds the next", id="search")
        yield Footer()

    async def on_mount(self) -> None:
        """Read it."""
        await self._open(self._place)

    async def _open(self, place: int) -> None:
        row = self._rows[place]
        record = await self.ask(row.load)
        if record is None:
            return
        self._place, self._at = place, 0
        self._turns = turns_of(conversation(record))
        self._about = f"{self._heading}: {_about(row, record)}"
        await self._fill(0)
        self.query_one("#transcript", VerticalScroll).scroll_home(animate=False)
        await self._show(0)

    async def _fill(self, start: int) -> None:
        """Put WINDOW turns on the screen, from `start` on."""
        self._start = start
        shown = self._turns[start : start + WINDOW]
        part = f"; turns {start + 1:,} to {start + len(shown):,} of {len(self._turns):,}"
        self.query_one("#about", Static).update(plain(self._about + (part if len(shown) < len(self._turns) else "")))
        transcript = self.query_one("#transcript", VerticalScroll)
        await transcript.remove_children()
        await transcript.mount_all([_fold(turn) for turn in shown])

    def _folds(self) -> list[Collapsible]:
        return list(self.query("#transcript > Collapsible").results(Collapsible))

    async def _show(self, place: int, *, focus: bool = True) -> None:
        """Bring a turn into sight; the screen moves to where it is."""
        if not self._turns:
            return
        self._at = max(0, min(place, len(self._turns) - 1))
        if not self._start <= self._at < self._start + WINDOW:
            await self._fill(self._at // WINDOW * WINDOW)
        fold = self._folds()[self._at - self._start]
        if focus:
            fold.query_one("CollapsibleTitle").focus()
        else:
            fold.collapsed = False
        fold.scroll_visible(top=True, animate=False)

    async def action_close(self) -> None:
        """Leave the search, or the rollout."""
        search = self.query_one("#search", Input)
        if search.has_class("shown"):
            search.remove_class("shown")
            await self._show(self._at)
        else:
            self.app.pop_screen()

    async def action_turn(self, by: int) -> None:
        """The next turn, or the one before."""
        await self._show(self._at + by)

    def action_fold(self) -> None:
        """Open or shut the turn, with what is folded in it."""
        folds = self._folds()
        if folds:
            fold = folds[self._at - self._start]
            shut = not fold.collapsed
            for one in (fold, *fold.query(Collapsible)):
                one.collapsed = shut

    async def action_rollout(self, by: int) -> None:
        """The next rollout of the list, or the one before."""
        if 0 <= self._place + by < len(self._rows):
            await self._open(self._place + by)

    async def action_next_failed(self) -> None:
        """The next rollout of the list that failed."""
        place = next((at for at in range(self._place + 1, len(self._rows)) if self._rows[at].failed), None)
        if place is None:
            self.notify("No failed rollout below.")
        else:
            await self._open(place)

    def action_search(self) -> None:
        """Ask for words."""
        search = self.query_one("#search", Input)
        search.add_class("shown")
        search.focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """The next turn of all that has them, after the one in sight when they are the same as before."""
        wanted = event.value.strip().lower()
        first = self._at + 1 if wanted == self._looked_for else self._at
        count, self._looked_for = len(self._turns), wanted
        order = [place % count for place in range(first, first + count)] if wanted else []
        place = next((at for at in order if self._turns[at].has(wanted)), None)
        if place is None:
            self.notify("No turn has it.")
            return
        await self._show(place, focus=False)


def _about(row: Entry, record: RolloutRecord) -> str:
    reward = f", reward {record.reward:.3f}" if record.reward is not None else ""
    why = f": {record.failure.message}" if record.failure else ""
    return f"rollout {row.label}, {row.outcome}{why}{reward}"


def _line(text: str) -> str:
    return " ".join(text.split())[:LINE]


def _fold(turn: Turn) -> Collapsible:
    """A turn under its first line. Calls, and answers of tools that belong to none, are shut."""
    message = turn.message
    parts: list[Static | Collapsible] = []
    if message.reasoning:
        parts.append(Collapsible(Static(body(message.reasoning)), title="reasoning"))
    if message.text:
        parts.append(Static(body(message.text)))
    parts += [_call(turn, place, call) for place, call in enumerate(message.calls)]
    shut = message.kind == "tool"
    first = _line(message.text) if shut else ""
    return Collapsible(*parts, title=title(f"{turn.number} {message.role}  {first}"), collapsed=shut, classes="turn")


def _call(turn: Turn, place: int, call: ToolCall) -> Collapsible:
    """A call with what the tool answered under it; its title has the first line of both."""
    result = turn.results.get(place)
    parts = [Static(body(call.only_argument))]
    heading = f"{call.name} {_line(call.only_argument)}"
    if result is not None:
        parts.append(Static(body(result.text), classes="result"))
        heading += f" → {_line(result.text)}"
    return Collapsible(*parts, title=title(heading))
