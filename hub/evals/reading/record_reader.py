"""What readers of rollouts share, whether a rollout belongs to an evaluation or to a training run.

One page and its parts: a window of turns before or after (`from`, `until`), a whole turn or call (`turn`, `call`), the
code in a tool call (`turn` and `part`), or the results of a search (`q`). All are URLs of the same rollout, so they
work with htmx and without scripts.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from envhub.packaging.calls import Calls
from envhub.packaging.conversation import clipped, pretty
from envhub.packaging.snippets import TARGET, target_text
from envhub.protocol.evals.rollouts import RolloutRecord
from pydantic import BaseModel, ConfigDict, Field

from hub.core.errors import NotFound
from hub.core.http import validate
from hub.evals.reading.model_calls import LEGEND, model_call, summaries
from hub.evals.reading.opened_records import OpenedRecord
from hub.evals.reading.sandbox_view import commands_after, sandboxes_of
from hub.evals.reading.tool_texts import ToolText
from hub.evals.reading.transcript import SHOWN, Transcript, Turn, Window
from hub.evals.replays import calls_by_message, calls_by_turn

OPEN_CALLS = 3  # calls included in full; the others are loaded when they are unfolded
MOST_CALLS = 100  # calls listed on one page
COLOURED = 400  # characters of code in a folded call that are coloured at once; longer code is when it is unfolded
RENDERED = "rendered"  # Markdown is rendered
VIEWS = (RENDERED, "written")
VIEW = "transcript"  # name of a cookie
REMEMBERED = timedelta(days=365)
_Number = Field(default=None, ge=0, lt=2**31)


class ReaderQuery(BaseModel):
    """Query parameters: which part of the page is requested. None of them: the whole page."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    at: int | None = _Number  # the page, scrolled to this turn
    start: int | None = Field(default=None, ge=0, lt=2**31, alias="from")
    until: int | None = _Number
    turn: int | None = _Number
    part: str = Field(default="", max_length=20)  # of the turn's tool calls, in colours
    call: int | None = _Number
    calls: int = Field(default=0, ge=0, lt=2**31)  # the first call that is listed
    q: str = Field(default="", max_length=200)
    agent: str = Field(default="", max_length=64)  # whose part is read, if there are several
    view: str = ""  # one of VIEWS; empty: what this browser chose last


@dataclass(frozen=True)
class ListedRollout:
    """A rollout in the list beside the open one. `address` has no query; `words` are for its tooltip."""

    address: str
    name: str
    words: str
    reward: float | None
    shade: int | None
    failure: str  # why it has no reward
    asked: str
    is_open: bool = False


@dataclass(frozen=True)
class Place:
    """The position of a rollout in the list that the reader came from."""

    rows: Sequence[ListedRollout] = ()
    before: ListedRollout | None = None
    after: ListedRollout | None = None
    failed: ListedRollout | None = None  # the next one that failed or scored nothing


@dataclass(frozen=True)
class RecordReader:
    """A record that is read on a page. given: the query parameters, at least one, that keep the list."""

    request: HttpRequest
    opened: OpenedRecord
    given: Mapping[str, object]
    asked: ReaderQuery

    @classmethod
    def of(cls, request: HttpRequest, opened: OpenedRecord, given: Mapping[str, object]) -> RecordReader:
        """Read the address. Raises Invalid."""
        query = {name: value for name, value in request.GET.items() if value}
        return cls(request, opened, given, validate(ReaderQuery, query))

    @property
    def record(self) -> RolloutRecord:
        """The record that is read."""
        return self.opened.record

    @property
    def view(self) -> str:
        """The view that the address asks for; "" if it asks for none."""
        return self.asked.view if self.asked.view in VIEWS else ""

    def answer(self, context: dict[str, Any], show_page: Callable[[], HttpResponse]) -> HttpResponse:
        """Answer with the requested part or else the whole page, and remember the chosen view.

        The context has `context()`, `pictures_at` (the prefix of its pictures' addresses) and, if a replay may be
        started, `replay_at` (an address that the number of a call completes).
        """
        part = self._part(context)
        if part is not None:
            return part
        answer = show_page()
        if self.view:
            secure = settings.SESSION_COOKIE_SECURE
            answer.set_cookie(VIEW, self.view, max_age=REMEMBERED, httponly=True, samesite="Lax", secure=secure)
        return answer

    @property
    def agent(self) -> str:
        """The id of the part that the address asks for; "" if there is no such part."""
        return next((one.id for one in self.opened.agents if one.id == self.asked.agent), "")

    @property
    def part(self) -> str:
        """The id of the part that is read: the first by default; "" if there is one agent."""
        return self.agent or (self.opened.agents[0].id if self.opened.agents else "")

    def context(self) -> dict[str, Any]:
        """Return the context that page and parts need. `here` keeps the list in every address; `kept` in a form."""
        view = {"view": self.view} if self.view else {}
        agent = {"agent": self.agent} if self.agent else {}
        given = {**self.given, **view, **agent}
        return {
            "agents": self.opened.agents,
            "agent": self.part,
            "of_agent": f"?{urlencode(agent)}" if agent else "",
            "record": self.record,
            "target": clipped(target_text(self.record)),
            "rendered": (self.view or self.request.COOKIES.get(VIEW)) == RENDERED,
            "here": f"?{urlencode(given)}",
            "list_query": f"?{urlencode(self.given)}",
            "views_query": f"?{urlencode({**self.given, **agent})}",
            "agents_query": f"?{urlencode({**self.given, **view})}",
            "kept": given.items(),
            "shown": SHOWN,
            "cut": f":{SHOWN}",
            "coloured_at_once": COLOURED,
        }

    def _part(self, context: dict[str, Any]) -> HttpResponse | None:
        """Return the part that was requested, or None for the whole page. Raises NotFound."""
        asked, record = self.asked, self.record
        if asked.call is not None:
            turn = next((turn for turn in record.turns if turn.index == asked.call), None)
            if turn is None:
                raise NotFound(f"this rollout has no model call {asked.call}")
            return render(self.request, "evals/_call.html", {"call": model_call(turn, Calls(record.turns))})
        if asked.turn is None and asked.start is None and asked.until is None:
            return None
        whole = self.opened.transcript(self.asked.agent)
        if asked.turn is not None and asked.part:
            found = _tool_text(whole, asked.turn, asked.part)
            return render(self.request, "evals/_tool_code.html", context | {"part": found})
        context = context | {"by_message": calls_by_message(record, whole.messages, self.part)}
        if asked.turn is not None:
            context |= {"turns": _one(whole, asked.turn), "whole": True}
        elif asked.start is not None:
            context |= _window(whole, whole.window(asked.start), ahead=True)
        else:
            context |= _window(whole, whole.before(asked.until or 0), behind=True)
        return render(self.request, "evals/_turns.html", context)

    def transcript(self) -> dict[str, Any]:
        """Return the context of `evals/_transcript.html`."""
        asked, whole = self.asked, self.opened.transcript(self.asked.agent)
        start = 0 if asked.at is None else max(0, (whole.place_of(asked.at) or 0) - 2)
        return _window(whole, whole.window(start), ahead=True, behind=True) | {
            "by_message": calls_by_message(self.record, whole.messages, self.part),
            "messages_": len(whole.messages),
            "strip": whole.strip() if len(whole.turns) > 1 else [],
            "q": asked.q,
            "found": whole.search(asked.q) if asked.q else [],
        }

    def calls(self, *, opened: int = OPEN_CALLS) -> dict[str, Any]:
        """Return the context of `evals/_calls.html` and `evals/_sandboxes.html`. opened: calls included in full."""
        record, first = self.record, self.asked.calls
        sandboxes, listed = sandboxes_of(record), record.turns[first : first + MOST_CALLS]
        return {
            "calls": summaries(listed, commands_after(sandboxes), Calls(record.turns), whole=opened),
            "more_calls": first + MOST_CALLS if len(record.turns) > first + MOST_CALLS else None,
            "sandboxes": sandboxes,
            "by_turn": calls_by_turn(record),
            "legend": LEGEND,
        }


def _window(whole: Transcript, window: Window, *, ahead: bool = False, behind: bool = False) -> dict[str, Any]:
    """Return the context of a window. `ahead`, `behind`: on which sides to offer more."""
    return {
        "turns": window.turns,
        "following": window.stop if ahead and window.stop < len(whole.turns) else None,
        "next_number": whole.turns[window.stop].number if window.stop < len(whole.turns) else None,
        "preceding": window.start if behind and window.start > 0 else None,
    }


def _one(whole: Transcript, number: int) -> Sequence[Turn]:
    place = whole.place_of(number)
    if place is None:
        raise NotFound(f"this rollout has no turn {number}")
    return [whole.turns[place]]


def _tool_text(whole: Transcript, number: int, place: str) -> ToolText:
    (turn,) = _one(whole, number)
    found = turn.tool_text(place)
    if found is None:
        raise NotFound(f"turn {number} has no such part")
    return found


def texts_of(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return values as texts, for a list of facts."""
    return [(name, clipped(value) if isinstance(value, str) else pretty(value)) for name, value in values.items()]


def task_of(record: RolloutRecord) -> list[tuple[str, str]]:
    """Return the fields of the example as texts, without prompt and target, which are shown apart."""
    return texts_of({key: value for key, value in record.task.items() if key not in ("prompt", TARGET)})


def picture_of(
    request: HttpRequest, opened: OpenedRecord, number: int, index: int, headers: dict[str, str]
) -> HttpResponse:
    """Return one picture in a turn of the part that the address names, with additional headers. Raises NotFound.

    Its content type is one of those in which browsers execute nothing.
    """
    messages = opened.transcript(request.GET.get("agent", "")).messages
    pictures = messages[number].pictures if number < len(messages) else ()
    if index >= len(pictures):
        raise NotFound("the picture does not exist")
    try:
        content = base64.b64decode(pictures[index].content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotFound("this picture cannot be read") from error
    rules = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
    return HttpResponse(content, content_type=pictures[index].kind, headers=rules | headers)
