"""One transcript: a fold for each message, tool calls and results shut; the next rollouts are a key away."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Collapsible, Footer, Header, Input, Static

from envhub.cli.tui.listings import Entry
from envhub.cli.tui.screens import HubScreen
from envhub.cli.tui.texts import body, plain, title
from envhub.packaging.conversation import Message, conversation
from envhub.protocol.evals.rollouts import RolloutRecord

MOST = 400  # messages that one screen has
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
        self._messages: list[Message] = []
        self._at = 0
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
        messages = conversation(record)
        self._messages = messages[:MOST]
        self.query_one("#about", Static).update(plain(f"{self._heading}: {_about(row, record, len(messages))}"))
        transcript = self.query_one("#transcript", VerticalScroll)
        await transcript.remove_children()
        await transcript.mount_all([_fold(number, one) for number, one in enumerate(self._messages)])
        transcript.scroll_home(animate=False)
        self._show(0)

    def _folds(self) -> list[Collapsible]:
        return list(self.query("#transcript > Collapsible").results(Collapsible))

    def _show(self, place: int) -> None:
        folds = self._folds()
        if folds:
            self._at = max(0, min(place, len(folds) - 1))
            folds[self._at].query_one("CollapsibleTitle").focus()
            folds[self._at].scroll_visible(top=True, animate=False)

    def action_close(self) -> None:
        """Leave the search, or the rollout."""
        search = self.query_one("#search", Input)
        if search.has_class("shown"):
            search.remove_class("shown")
            self._show(self._at)
        else:
            self.app.pop_screen()

    def action_turn(self, by: int) -> None:
        """The next turn, or the one before."""
        self._show(self._at + by)

    def action_fold(self) -> None:
        """Open or shut the turn, with what is folded in it."""
        folds = self._folds()
        if folds:
            shut = not folds[self._at].collapsed
            for one in (folds[self._at], *folds[self._at].query(Collapsible)):
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

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The next turn that has them, after the one in sight when they are the same as before."""
        wanted = event.value.strip().lower()
        first = self._at + 1 if wanted == self._looked_for else self._at
        count, self._looked_for = len(self._messages), wanted
        order = [place % count for place in range(first, first + count)] if wanted else []
        place = next((at for at in order if wanted in _words(self._messages[at])), None)
        if place is None:
            self.notify("No turn has it.")
            return
        self._folds()[place].collapsed = False
        self._at = place
        self._folds()[place].scroll_visible(top=True, animate=False)


def _about(row: Entry, record: RolloutRecord, count: int) -> str:
    reward = f", reward {record.reward:.3f}" if record.reward is not None else ""
    more = f"; the first {MOST} of {count} messages" if count > MOST else ""
    why = f": {record.failure.message}" if record.failure else ""
    return f"rollout {row.label}, {row.outcome}{why}{reward}{more}"


def _words(message: Message) -> str:
    calls = (f"{call.name} {call.only_argument}" for call in message.calls)
    return "\n".join((message.text, message.reasoning, *calls)).lower()


def _fold(number: int, message: Message) -> Collapsible:
    """A message under its first line. What tools answered is shut."""
    first = " ".join(message.text.split())[:LINE]
    parts: list[Static | Collapsible] = []
    if message.reasoning:
        parts.append(Collapsible(Static(body(message.reasoning)), title="reasoning"))
    if message.text:
        parts.append(Static(body(message.text)))
    for call in message.calls:
        line = " ".join(call.only_argument.split())[:LINE]
        parts.append(Collapsible(Static(body(call.only_argument)), title=title(f"{call.name} {line}")))
    shut = message.kind == "tool"
    return Collapsible(
        *parts, title=title(f"{number} {message.role}  {first if shut else ''}"), collapsed=shut, classes="turn"
    )
