"""Marks each call of a judge with the rollout it is made for, so that the interceptor books its usage there.

Packages build their judge clients themselves; what those have in common is httpx (or httpx2) below them.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from .attempts import CURRENT

HEADER = "X-Envhub-Rollout"
LIBRARIES = ("httpx", "httpx2")
_KEY = re.compile(r"/r/([^/]+)/")


def mark_judge_calls(judge_base_url: str) -> None:
    """From now on requests below `judge_base_url` carry the header; others are left alone."""
    for name in LIBRARIES:
        try:
            library = import_module(name)
        except ImportError:
            continue
        _wrap_async(library.AsyncClient, judge_base_url)
        _wrap(library.Client, judge_base_url)


def _mark(request: Any, judge_base_url: str) -> None:
    attempt = CURRENT.get()
    if attempt is None or not str(request.url).startswith(judge_base_url):
        return
    found = _KEY.search(attempt.base_url)
    if found:
        request.headers.setdefault(HEADER, found[1])


def _wrap_async(client: Any, judge_base_url: str) -> None:
    send = client.send

    async def marked(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        _mark(request, judge_base_url)
        return await send(self, request, *args, **kwargs)

    client.send = marked


def _wrap(client: Any, judge_base_url: str) -> None:
    send = client.send

    def marked(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        _mark(request, judge_base_url)
        return send(self, request, *args, **kwargs)

    client.send = marked
