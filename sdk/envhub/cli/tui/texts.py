"""Texts of packages and models on a terminal: no markup, no control characters."""

from __future__ import annotations

from rich.markup import escape
from rich.text import Text

from envhub.cli.terminal.session import cell, printable

GOOD, BAD, DIM = "green", "red", "dim"
_STATES = {
    "succeeded": GOOD,
    "ok": GOOD,
    "failed": BAD,
    "cancelled": "yellow",
    "truncated": "yellow",
    "running": "cyan",
}


def plain(value: object, style: str = "") -> Text:
    """One line of a table."""
    return Text(" ".join(printable(cell(value)).split()), style=style, no_wrap=True, overflow="ellipsis", end="")


def state(value: str) -> Text:
    """A state or an outcome, coloured; unknown ones are kinds of failure."""
    known = {"queued", "leased"}
    return plain(value, _STATES.get(value, "" if value in known else BAD))


def title(text: str) -> str:
    """For titles, which would take brackets for markup."""
    return escape(" ".join(printable(text).split()))


def body(text: str) -> Text:
    """A whole text as it was written."""
    return Text(printable(text))
