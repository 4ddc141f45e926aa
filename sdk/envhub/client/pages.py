"""Walks keyset-paginated lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from envhub.client.connection import Connection
from envhub.protocol.base import Page

Item = TypeVar("Item", bound=BaseModel)


def iterate(
    connection: Connection, path: str, page: type[Page[Item]], **params: str | float | bool | None
) -> Iterator[Item]:
    """Every item of a list, fetching the next page when the last is used up."""
    answer = connection.get(path, page, **params)
    while True:
        yield from answer.items
        if not answer.next:
            return
        answer = connection.get(_beneath(connection, answer.next), page)


def _beneath(connection: Connection, url: str) -> str:
    """The path of a `next` URL: behind a proxy the hub may name itself differently from what we called."""
    _, _, rest = url.partition("/api/v1/")
    return f"/{rest}"
