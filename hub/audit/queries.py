"""Reading the log."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import QuerySet

from hub.accounts.models import Role, User
from hub.accounts.queries import get_owner, require_role
from hub.audit.models import AuditEntry

EXPORTED_AT_ONCE = 1000


def entries_for(user: User, owner: str) -> QuerySet[AuditEntry]:
    """What concerns an owner, newest first, for those with the role owner there; without one an administrator sees
    all, everybody else what concerns themselves. Raises NotFound, NotAllowed."""
    rows = AuditEntry.objects.order_by("-pk")
    if not owner and user.is_administrator:
        return rows
    found = get_owner(user, owner or user.username)
    require_role(user, found, Role.OWNER)
    return rows.filter(owner_id=found.pk)


def walk(rows: QuerySet[AuditEntry]) -> Iterator[AuditEntry]:
    """All of them by pages of the key: no query and no cursor stays open while somebody downloads."""
    page = list(rows[:EXPORTED_AT_ONCE])
    while page:
        yield from page
        page = list(rows.filter(pk__lt=page[-1].pk)[:EXPORTED_AT_ONCE])
