"""Share links as wire types."""

from __future__ import annotations

from envhub.protocol.accounts.links import LinkKind, ShareLinkView

from hub.links.models import ShareLink


def link_view(row: ShareLink) -> ShareLinkView:
    """Without its secret; expects the relations that hub.links.queries loads."""
    return ShareLinkView(
        id=str(row.pk),
        owner=row.owner.slug,
        kind=LinkKind(row.kind),
        subject=row.subject,
        evaluations=tuple(str(one.evaluation_id) for one in row.evaluations.all()),
        example=row.example,
        rollout=row.rollout,
        training=str(row.training_id) if row.training_id else None,
        note=row.note,
        created_by=row.created_by.username,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        opened=row.opened,
        opened_at=row.opened_at,
    )
