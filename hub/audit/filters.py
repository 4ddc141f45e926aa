"""The filters of the log, read from a request's parameters; shared by the page, the API and the export.

Actor, action and token each have an index that ends in the key. A time is a range of the key, which begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import QuerySet

from hub.audit.models import AuditEntry
from hub.core.database_json import storable_text
from hub.core.errors import Invalid
from hub.core.ids import first_id_at

PARAMETERS = ("actor", "action", "token", "since", "until")
LONGEST = 200
EPOCH = datetime.fromtimestamp(0, UTC)  # no entry is older


@dataclass(frozen=True)
class AuditFilter:
    """What a reader asked for; empty means everything."""

    actor: str = ""
    action: str = ""
    token: str = ""  # the first characters, as the log has them
    since: datetime | None = None
    until: datetime | None = None


def read_filter(given: Mapping[str, str]) -> AuditFilter:
    """Read the filter from the parameters of a request. Raises Invalid for what is no time."""
    actor, action, token = (storable_text(given.get(name, ""))[:LONGEST].strip() for name in PARAMETERS[:3])
    since, until = _moment("since", given), _moment("until", given, end_of_day=True)
    return AuditFilter(actor, action, token.rstrip("…."), since, until)


def narrow(rows: QuerySet[AuditEntry], by: AuditFilter) -> QuerySet[AuditEntry]:
    """Return the entries that match."""
    if by.actor:
        rows = rows.filter(actor=by.actor)
    if by.action:
        rows = rows.filter(action=by.action)
    if by.token:
        rows = rows.filter(token_prefix=by.token)
    if by.since:
        rows = rows.filter(pk__gte=first_id_at(max(by.since, EPOCH)))
    if by.until:
        rows = rows.filter(pk__lt=first_id_at(max(by.until, EPOCH)))
    return rows


def _moment(name: str, given: Mapping[str, str], *, end_of_day: bool = False) -> datetime | None:
    """Return a time; a day without one begins at midnight UTC, or ends there."""
    text = given.get(name, "").strip()
    if not text:
        return None
    try:
        if len(text) == len("2026-01-31"):
            day = date.fromisoformat(text) + timedelta(days=1 if end_of_day else 0)
            return datetime.combine(day, time(), UTC)
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        hint = "write a day such as 2026-01-31, or a time such as 2026-01-31T18:00:00Z"
        raise Invalid(f"{name} is not a time", hint=hint, fields={name: text[:LONGEST]}) from error
