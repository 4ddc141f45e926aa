"""What a package did while it loaded that its error may not tell: what it printed, and which variables of the
environment it looked for in vain. One that checks its settings, prints what is missing and exits says nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

PRINTED = 4000  # characters kept
LOOKED_FOR = 500  # names kept
_printed = ""
_looked_for: dict[str, None] = {}
_is_listening = False


@contextmanager
def listening() -> Iterator[None]:
    """While a package loads; then it is forgotten."""
    global _printed, _is_listening
    _is_listening = True
    streams, environ = (sys.stdout, sys.stderr), type(os.environ)
    found = environ.__getitem__

    def getitem(self: Any, key: str) -> str:
        try:
            return found(self, key)
        except KeyError:
            if isinstance(key, str) and len(_looked_for) < LOOKED_FOR:
                _looked_for[key] = None
            raise

    sys.stdout, sys.stderr = (_Overheard(stream) for stream in streams)
    environ.__getitem__ = getitem  # type: ignore[method-assign]
    try:
        yield
    finally:
        _printed, _is_listening = "", False
        _looked_for.clear()
        environ.__getitem__ = found  # type: ignore[method-assign]
        for name, stream in zip(("stdout", "stderr"), streams, strict=True):
            if isinstance(getattr(sys, name), _Overheard):  # else the package has put its own in its place
                setattr(sys, name, stream)


def printed() -> str:
    """The last of it."""
    return _printed.strip()


def looked_for() -> tuple[str, ...]:
    """In the order in which they were looked for first."""
    return tuple(_looked_for)


class _Overheard:
    """A stream that keeps the last of what is written to it. Loggers keep it for good: it goes on writing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        global _printed
        if _is_listening and isinstance(text, str):
            _printed = (_printed + text)[-PRINTED:]
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
