"""What ids and names in a text stand for: what people call it, and the address of its page.

Apps register their own in AppConfig.ready(). Each answers for all of a page's ids or names with one query, and only
what the user may see.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

if TYPE_CHECKING:  # apps register before there are models
    from hub.accounts.models import User


class Named(NamedTuple):
    """Something that has a page."""

    text: str
    url: str


Reference: TypeAlias = tuple[str, str]  # owner, name
ById: TypeAlias = "Callable[[User, Collection[UUID]], Mapping[UUID, Named]]"
ByName: TypeAlias = "Callable[[User, Collection[Reference]], Mapping[Reference, str]]"

_by_id: list[ById] = []
_by_name: list[tuple[tuple[str, ...], ByName]] = []


def register_ids(named: ById) -> None:
    """Register an app's answer: the things of these ids."""
    if named not in _by_id:
        _by_id.append(named)


def register_names(words: tuple[str, ...], addresses: ByName) -> None:
    """Register an app's answer: the addresses of `owner/name`, in sentences that contain one of the words."""
    if (words, addresses) not in _by_name:
        _by_name.append((words, addresses))


def named_by_id(user: User, ids: Collection[UUID]) -> dict[UUID, Named]:
    """Return what is known of the ids: a query for each app, none without ids."""
    found: dict[UUID, Named] = {}
    for named in _by_id if ids else ():
        found |= named(user, ids)
    return found


def addresses_by_name(user: User, told: Collection[tuple[str, Reference]]) -> dict[tuple[str, Reference], str]:
    """Return the addresses of (sentence, reference) pairs: at most a query for each app."""
    found: dict[tuple[str, Reference], str] = {}
    for words, addresses in _by_name:
        own = [(text, reference) for text, reference in told if any(word in text for word in words)]
        known = addresses(user, {reference for _, reference in own}) if own else {}
        found |= {(text, reference): known[reference] for text, reference in own if reference in known}
    return found
