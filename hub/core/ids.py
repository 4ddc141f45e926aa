"""Primary keys: UUIDv7, so that ordering by id is ordering by creation and keyset pagination needs no second column.

People may give what an id begins with, as with commits of git. Reads of one row resolve that with `find_by_id`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypeAlias, TypeVar

import uuid_utils
from django.db.models import Model, QuerySet
from pydantic import BeforeValidator

from hub.core.errors import Invalid, NotFound

DIGITS = 32
SHORTEST = 8  # digits that say which one
MOST_LISTED = 20  # matches that an error names
GivenId: TypeAlias = uuid.UUID | str  # whole, or the digits that it begins with
Row = TypeVar("Row", bound=Model)


class AmbiguousId(Invalid):
    """Several ids begin so; `fields` has those that the caller may see, with what each is."""

    def __init__(self, given: str, found: dict[str, str], *, more: bool) -> None:
        count = f"more than {len(found)}" if more else str(len(found))
        super().__init__(
            f"{count} ids begin with {given}", code="ambiguous_id", hint="give more of the id", fields=found
        )
        self.given = given


def new_id() -> uuid.UUID:
    """A fresh UUIDv7."""
    return uuid.UUID(bytes=uuid_utils.uuid7().bytes)


def read_id(text: object) -> GivenId:
    """An id as it was given, with or without dashes. Raises ValueError for what no id begins with."""
    digits = str(text).replace("-", "").lower()
    if not (SHORTEST <= len(digits) <= DIGITS and set(digits) <= set("0123456789abcdef")):
        raise ValueError(f"no id, nor the first {SHORTEST} characters of one")
    return uuid.UUID(hex=digits) if len(digits) == DIGITS else digits


AskedId = Annotated[GivenId, BeforeValidator(read_id)]  # of a query's parameter


class IdConverter:
    """The converter `id` of paths."""

    regex = f"[0-9a-fA-F]{{{SHORTEST}}}[0-9a-fA-F-]{{0,28}}"

    def to_python(self, value: str) -> GivenId:
        """Raises ValueError: then the path is none."""
        return read_id(value)

    def to_url(self, value: GivenId) -> str:
        """As it is."""
        return str(value)


def find_by_id(rows: QuerySet[Row], given: GivenId, describe: Callable[[Row], str]) -> Row | None:
    """The row of an id, or the only one whose id begins so: a range of the primary key. Raises AmbiguousId."""
    wanted = read_id(given)
    if isinstance(wanted, uuid.UUID):
        return next(iter(rows.filter(pk=wanted).order_by()[:1]), None)  # `first` would have it ordered, at a cost
    low, high = (uuid.UUID(hex=wanted.ljust(DIGITS, digit)) for digit in "0f")
    found = list(rows.filter(pk__gte=low, pk__lte=high).order_by("-pk")[: MOST_LISTED + 1])
    if len(found) > 1:
        named = {str(row.pk): describe(row) for row in found[:MOST_LISTED]}
        raise AmbiguousId(wanted, named, more=len(found) > MOST_LISTED)
    return found[0] if found else None


def whole_id(given: GivenId) -> uuid.UUID:
    """Of a worker, which knows what it works on. Raises NotFound."""
    if isinstance(given, str):
        raise NotFound("there is nothing here")
    return given


def first_id_at(moment: datetime) -> uuid.UUID:
    """What no id that is made from `moment` on is less than: a UUIDv7 begins with its milliseconds."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80)
