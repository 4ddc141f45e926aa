"""Secret values out of what a box said: it was given them, and what it says is shown to whoever sees the version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from envhub.protocol.base import Json

from hub.accounts.models import Owner
from hub.secrets.services import names_of, reveal_for_run

SHORTEST = 4  # masking "1" would ruin the text and hide nothing
Value = TypeVar("Value")


def masked(owner: Owner, names: Iterable[str], value: Value) -> Value:
    """`value` (JSON) with *** wherever its text holds the value of one of the owner's secrets."""
    known = names_of(owner, names)
    texts = {text.strip() for text in reveal_for_run(owner, known).values()} if known else set()
    hidden = sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True)
    found: Value = _without(value, hidden) if hidden else value
    return found


def _without(value: Json, hidden: list[str]) -> Json:
    if isinstance(value, str):
        for text in hidden:
            value = value.replace(text, "***")
        return value
    if isinstance(value, dict):
        return {_without(key, hidden): _without(item, hidden) for key, item in value.items()}
    return [_without(item, hidden) for item in value] if isinstance(value, list) else value
