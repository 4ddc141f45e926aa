"""What an owner may have, by app: a team that has any of it is not deleted, and its page links to it.

Apps register what is theirs in AppConfig.ready(), as they do with the sweeper's chores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from django.db.models import Exists, QuerySet

if TYPE_CHECKING:  # apps register before there are models
    from hub.accounts.models import Owner

Rows: TypeAlias = "Callable[[Owner], QuerySet[Any]]"


class Holding(NamedTuple):
    """`rows` are an owner's; `page` is a path that takes `?owner=`, or "" where none does."""

    label: str
    rows: Rows
    page: str = ""
    for_members: bool = False  # readers may not look at the page


class Held(NamedTuple):
    """Something that an owner has."""

    label: str
    url: str
    for_members: bool = False


_holdings: list[Holding] = []


def register_holding(label: str, rows: Rows, page: str = "", *, for_members: bool = False) -> None:
    """`label`: in the plural, as it stands in a sentence."""
    _holdings.append(Holding(label, rows, page, for_members))


def all_holdings() -> tuple[Holding, ...]:
    """In the order of their registration."""
    return tuple(_holdings)


def held_by(owner: Owner) -> list[Held]:
    """What the owner has any of: one query that stops at each first row, whatever their number."""
    asked = [Exists(holding.rows(owner)) for holding in _holdings]
    known = type(owner)._default_manager.filter(pk=owner.pk).values_list(*asked).first() or ()
    found = [holding for holding, is_held in zip(_holdings, known, strict=False) if is_held]
    return [Held(one.label, f"{one.page}?owner={owner.slug}" if one.page else "", one.for_members) for one in found]
