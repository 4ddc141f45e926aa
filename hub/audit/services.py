"""Writing and pruning the log."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponseBase
from django.urls import ResolverMatch

from hub.accounts.acting import Acting
from hub.accounts.client_address import client_address
from hub.accounts.models import ApiToken, Owner, User
from hub.audit.actions import action_of
from hub.audit.models import AuditEntry
from hub.audit.subjects import subject_of
from hub.core import clock
from hub.core.database_json import storable_text
from hub.core.ids import first_id_at
from hub.core.requests.observed import NAME

logger = logging.getLogger(__name__)
PRUNED_AT_ONCE = 5000
PRUNE_EVERY = timedelta(hours=1)


def record(request: HttpRequest, match: ResolverMatch, response: HttpResponseBase, acting: Acting) -> None:
    """Log a write that succeeded. The answer is given whatever becomes of this: a failure is an error in the hub's log.

    Nothing for what no person did: workers, runs and strangers have their own traces.
    """
    user = request.user
    action = action_of(request.method or "", match.route, response.status_code)
    if action is None or not isinstance(user, User):
        return
    token = getattr(request, "auth", None)
    if acting.owner_id is None:
        own = Owner.objects.filter(user=user).first()
        acting = Acting(own.pk, own.slug, acting.receivers) if own else acting
    owners: list[tuple[UUID | None, str]] = [(acting.owner_id, acting.owner_slug), *acting.receivers.items()]
    entries = [
        AuditEntry(
            actor=user.username,
            owner_id=owner_id,
            owner_slug=slug,
            action=action,
            subject=storable_text(subject_of(match, response))[:200],
            address=client_address(request)[:64],
            token_prefix=token.prefix if isinstance(token, ApiToken) else "",
            request_id=str(getattr(request, "scope", {}).get(NAME, "")),
        )
        for owner_id, slug in dict(owners).items()
    ]
    try:
        AuditEntry.objects.bulk_create(entries)
    except DatabaseError:
        logger.exception("not in the audit log: %s for %s", entries[0], ", ".join(slug for _, slug in owners))


class Pruning:
    """The sweeper's chore: forgets what is older than HUB_AUDIT_DAYS, some rows a pass, and looks once an hour."""

    def __init__(self) -> None:
        self._looked_at: datetime | None = None

    def __call__(self) -> int:
        """How many went."""
        now, days = clock.now(), settings.HUB.audit_days
        if not days or (self._looked_at is not None and now - self._looked_at < PRUNE_EVERY):
            return 0
        gone = forget_before(now - timedelta(days=days))
        self._looked_at = now if gone < PRUNED_AT_ONCE else None  # there may be more: the next pass goes on
        return gone


def forget_before(moment: datetime) -> int:
    """Delete the oldest entries, PRUNED_AT_ONCE at most: those made before `moment`."""
    old = AuditEntry.objects.filter(pk__lt=first_id_at(moment)).order_by("pk")
    return AuditEntry.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:PRUNED_AT_ONCE])).delete()[0]
