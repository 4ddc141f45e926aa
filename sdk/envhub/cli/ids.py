"""Ids as people give them, the id itself or the address of its page, and indexes."""

from __future__ import annotations

import re
from collections.abc import Callable

import typer

from envhub.errors import UsageError

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def id_of(noun: str, listing: str) -> Callable[[str], str]:
    """A callback for an argument: the id in what was typed. Raises UsageError that names `listing`, which shows ids."""

    def read(text: str) -> str:
        if found := id_in(text):
            return found
        raise UsageError(f"{text!r} is not the id of {noun}", hint=f"`{listing}` shows ids.")

    return read


def id_in(text: str) -> str:
    """The id that was typed, or that an address ends with; "" for anything else."""
    found = _UUID.findall(text)
    return str(found[0]).lower() if len(found) == 1 and ("/" in text or text == found[0]) else ""


def index(text: str) -> int:
    """A parser for an argument: typer by itself takes 0.0 for 0, and -1. Raises typer.BadParameter."""
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text!r} is not an index: 0, 1, 2, ...")
    return int(text)
