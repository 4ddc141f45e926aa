"""Ids as people give them: the id itself, or the address of its page."""

from __future__ import annotations

import re
from collections.abc import Callable

from envhub.errors import UsageError

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def id_of(noun: str, listing: str) -> Callable[[str], str]:
    """A callback for an argument: the id in what was typed. Raises UsageError that names `listing`, which shows ids."""

    def read(text: str) -> str:
        found = _UUID.findall(text)
        if len(found) == 1 and ("/" in text or text == found[0]):
            return str(found[0]).lower()
        raise UsageError(f"{text!r} is not the id of {noun}", hint=f"`{listing}` shows ids.")

    return read
