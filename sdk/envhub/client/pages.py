"""Walks keyset-paginated lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel

from envhub.client.connection import Connection
from envhub.protocol.base import Page

Item = TypeVar("Item", bound=BaseModel)


def iterate(
    connection: Connection, path: str, page: type[Page[Item]], **params: str | float | bool | None
) -> Iterator[Item]:
    """Every item of a list, fetching the next page when the last is used up.

    Of a `next` address only the query is used: behind a proxy the hub may name itself differently from what we called.
    """
    answer = connection.get(path, page, **params)
    while True:
        yield from answer.items
        if not answer.next:
            return
        answer = connection.get(path, page, **dict(parse_qsl(urlsplit(answer.next).query)))
