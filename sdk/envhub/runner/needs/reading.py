"""What an exception shows to be lacking from outside: a data set, a secret, a host, ... Empty when it shows nothing.

An exception is read together with all that it came of, handled and suppressed ones too: packages wrap what a library
said, print it and exit (overheard.py), or raise from None. Each reading takes one link of that chain and names (kind,
name) pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from . import data, network, services
from .links import Link

Reading = Callable[[Link], Iterable["tuple[str, str]"]]
LINKS = 30
MAX_TEXT = 8000
_LAST_LINE = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Expired|Timeout|Failed)\w*): (.*)$", re.MULTILINE)


class Need(NamedTuple):
    """A need of the wire."""

    kind: str
    name: str
    detail: str = ""

    def to_json(self) -> dict[str, str]:
        """The wire's shape."""
        return {"kind": self.kind, "name": self.name[:500], "detail": self.detail[:1000]}


# The first that finds something decides: what names a thing comes before what only says that the network is away.
READINGS: tuple[Reading, ...] = (
    services.secrets,
    data.repositories,
    data.corpora,
    services.npm_packages,
    services.browsers,
    services.sandboxes,
    services.gpus,
    services.open_files,
    network.files_and_hosts,
    services.programs,
    services.variables,
)


def lacking(error: BaseException) -> tuple[Need, ...]:
    """What the exception, or one that it came of, asked for and did not get."""
    return _read([link_of(found) for found in everything(error)])


def lacking_in_text(kind: str, message: str, trace: str) -> tuple[Need, ...]:
    """The same where a library left only text: an exception's class, its message and its traceback."""
    lines = [Link(*_split(name), text) for name, text in _LAST_LINE.findall(trace)][-LINKS:]
    return _read([Link(*_split(kind), message), *reversed(lines)])


def _read(links: list[Link]) -> tuple[Need, ...]:
    for reading in READINGS:
        for link in links:
            found = tuple(dict.fromkeys(reading(link)))
            if found:
                return tuple(Need(kind, name, link.text) for kind, name in found)
    return ()


def _split(name: str) -> tuple[str, frozenset[str]]:
    module, _, last = name.rpartition(".")
    return module, frozenset({last})


def link_of(error: BaseException) -> Link:
    """An exception as the readings take it."""
    names = frozenset(base.__name__ for base in type(error).__mro__)
    return Link(str(type(error).__module__), names, _text(error), error)


def everything(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that it came of, the nearest first; of a group, its parts."""
    waiting: list[Any] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < LINKS:
        found = waiting.pop(0)
        if not isinstance(found, BaseException) or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += [found.__cause__, found.__context__, *getattr(found, "exceptions", ())]
        waiting += [_retried(found), *(arg for arg in found.args if isinstance(arg, BaseException))]


def _retried(error: BaseException) -> BaseException | None:
    """What tenacity's RetryError gave up on."""
    last = getattr(error, "last_attempt", None)
    try:
        return last.exception(timeout=0) if last is not None else None
    except Exception:  # noqa: BLE001 - environments name attributes as they like
        return None


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception:  # noqa: BLE001 - exceptions of environments are classes of their own
        return ""
