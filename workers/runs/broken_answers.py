"""Ends an answer that breaks off while it is passed on, so that its client does not take it for whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web


@contextmanager
def whole_or_closed(request: web.Request) -> Iterator[None]:
    """Close the connection if the block fails, which sends the body of an answer that has begun.

    The answer to the error would otherwise be written into that body.
    """
    try:
        yield
    except BaseException:
        if request.transport is not None:
            request.transport.close()
        raise
