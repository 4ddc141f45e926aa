"""What a model call asks, whatever its sampling: how a replay tells whether an environment still asks the same."""

from __future__ import annotations

from envhub.packaging.saved.results import canonical_hash
from envhub.protocol.base import JsonObject

_FIELDS = ("messages", "prompt", "system", "instructions", "input")  # of all protocols


def digest(request: JsonObject) -> str:
    """SHA-256 of the conversation in a request of any protocol."""
    return canonical_hash({name: request[name] for name in _FIELDS if request.get(name) is not None})
