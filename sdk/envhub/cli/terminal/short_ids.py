"""What an id looks like, whole or by its first characters, and how few of them tell ids apart."""

from __future__ import annotations

import re
from collections.abc import Collection

SHORTEST = 8  # characters that the hub takes for an id's beginning
SHOWN = 13  # of ids in tables: ids begin with their millisecond, and 8 characters would be those of a whole minute
WHOLE = 36
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BEGINNING = re.compile(rf"[0-9a-f]{{{SHORTEST}}}[0-9a-f-]{{0,28}}", re.IGNORECASE)
_IN_ADDRESS = re.compile(rf"[/=]({_BEGINNING.pattern})(?=[/?&#]|$)", re.IGNORECASE)


def is_whole(text: str) -> bool:
    """Whether this is an id as a whole."""
    return _UUID.fullmatch(text) is not None


def id_in(text: str) -> str:
    """The id that was typed, whole or its beginning, or that an address holds; "" for anything else."""
    if _BEGINNING.fullmatch(text):
        return text.lower()
    found = _IN_ADDRESS.findall(text)
    return str(found[0]).lower() if len(found) == 1 else ""


def shortened(ids: Collection[str]) -> dict[str, str]:
    """Whole ids -> their first characters, as many as tell each from the others."""
    return {one: one[: _telling(one, set(ids) - {one})] for one in ids}


def _telling(one: str, others: Collection[str]) -> int:
    near = [other for other in others if other.startswith(one[:SHOWN])]
    return next((end for end in range(SHOWN, WHOLE) if not any(other.startswith(one[:end]) for other in near)), WHOLE)
