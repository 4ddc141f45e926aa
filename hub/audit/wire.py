"""An entry as its wire type."""

from __future__ import annotations

from envhub.protocol.accounts.audit import AuditEntryView

from hub.audit.models import AuditEntry


def entry_view(row: AuditEntry) -> AuditEntryView:
    """One line of the log."""
    return AuditEntryView(
        id=str(row.pk),
        at=row.created_at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        owner=row.owner_slug,
        address=row.address,
        token_prefix=row.token_prefix,
        request_id=row.request_id,
    )
