"""Wire types of the live sandboxes in a run: what its worker reports every few seconds and which ones it must end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from envhub.protocol.base import Count, Number, Request, Response, Size

MOST_LIVE = 100  # sandboxes of a run that are listed, the newest first
MOST_LAST = 3  # commands listed for each
TELL_S = 3.0  # seconds between reports
_SHELL = re.compile(r"(?:/usr)?(?:/bin/)?(?:ba|da|z)?sh")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # what databases and JSON refuse


def storable(text: object) -> object:
    """Replace characters that no database can store."""
    return _UNSTORABLE.sub("\ufffd", text) if isinstance(text, str) else text


Line = Annotated[str, BeforeValidator(storable), Field(max_length=400)]
Tail = Annotated[str, BeforeValidator(storable), Field(max_length=1000)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


def command_line(argv: Sequence[str]) -> str:
    """Format a command as it would be typed: the script given to a shell, or the words."""
    if len(argv) == 3 and _SHELL.fullmatch(argv[0]) and re.fullmatch(r"-[a-z]*c", argv[1]):
        return argv[2]
    return " ".join(argv)


class LiveCommand(Request):
    """A command: how it was typed, and the end of its output. An `unfinished` one runs now."""

    line: Line
    began: datetime
    seconds: Number
    exit_code: int = Field(ge=-(2**31), lt=2**31)
    timed_out: bool = False
    unfinished: bool = False
    output: Tail = ""


class LiveSandbox(Request):
    """A pending or running sandbox. `rollout` describes the rollout that it was created for; "" if unknown."""

    id: Name
    rollout: Annotated[str, Field(max_length=200)] = ""
    image: Line
    state: Literal["pending", "running"]
    waits_for: Line = ""  # what a pending one waits for: room on its worker, its image
    created_at: datetime
    memory_bytes: Size | None = None
    memory_mb: Count = 0  # its limit
    cpus: Number | None = None  # in use, over the last seconds
    cpu_limit: Number = 0.0
    commands: Count = 0  # how many have started
    last: tuple[LiveCommand, ...] = Field(default=(), max_length=MOST_LAST)


class LiveReport(Request):
    """A worker's report on the sandboxes of its run: how many are live, and the newest of them."""

    living: Count
    items: tuple[LiveSandbox, ...] = Field(default=(), max_length=MOST_LIVE)


class LiveReply(Response):
    """The sandboxes to end: id -> who asked for it."""

    end: dict[str, str] = {}


class LiveSandboxes(Response):
    """The live sandboxes inside a run. `ending` lists those that somebody has asked to end."""

    living: int = 0
    items: tuple[LiveSandbox, ...] = ()
    ending: tuple[str, ...] = ()
    told_at: datetime | None = None
