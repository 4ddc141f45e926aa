"""Which of several engines is asked: the one that has the longest prefix of the request in its cache, if it has room.

Rollouts of a group share their prompt, and a conversation's next turn begins with all turns before: an engine that has
computed them need not do so again. One that is much busier than the others is passed over.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from envhub.protocol.base import JsonObject

KEPT = 200_000  # prefixes that are remembered, of about 150 bytes each
BLOCK = 256  # characters or tokens of a prompt that is no list of messages
SLACK = 1.25  # an engine may have this many times the mean of all engines' calls, and EXTRA more
EXTRA = 2
R = TypeVar("R")


class PrefixRouter:
    """Remembers who was asked what last. Engines are compared by identity; those that went are forgotten by and by."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._asked: OrderedDict[bytes, Any] = OrderedDict()

    def pick(self, body: JsonObject, loads: Mapping[R, int]) -> R:
        """One of the engines in `loads` (calls in flight by engine; not empty)."""
        keys = list(prefixes(body))
        most = SLACK * sum(loads.values()) / len(loads) + EXTRA
        known = (self._asked[key] for key in reversed(keys) if key in self._asked)
        idle = min(loads, key=lambda engine: loads[engine])
        chosen: R = next((one for one in known if one in loads and loads[one] <= most), idle)
        for key in keys:
            self._asked[key] = chosen
            self._asked.move_to_end(key)
        while len(self._asked) > self._kept:
            self._asked.popitem(last=False)
        return chosen


def prefixes(body: JsonObject) -> Iterator[bytes]:
    """A key for each prefix of a request's prompt, the shortest first."""
    state = blake2b(digest_size=16)
    for part in parts(body):
        state.update(part)
        yield state.digest()


def parts(body: JsonObject) -> Iterator[bytes]:
    """A prompt in pieces: its tools, then message by message, or block by block."""
    prompt = body.get("tokens") or body.get("prompt")
    if isinstance(prompt, (str, list)):
        yield from (encoded(prompt[at : at + BLOCK]) for at in range(0, len(prompt), BLOCK))
        return
    if body.get("tools"):
        yield encoded(body["tools"])
    messages = body.get("messages")
    if isinstance(messages, Sequence) and not isinstance(messages, str):
        yield from (encoded(message) for message in messages)


def encoded(part: Any) -> bytes:
    """Any JSON as bytes that differ where it does."""
    return json.dumps(part, sort_keys=True, default=str).encode() + b"\0"
