"""Secret rows as wire types."""

from __future__ import annotations

from envhub.protocol.accounts.secrets import SecretView

from hub.secrets.models import Secret


def secret_view(row: Secret) -> SecretView:
    """Without the value: it is never read for this."""
    return SecretView(
        owner=row.owner.slug,
        name=row.name,
        created_at=row.created_at,
        updated_at=row.updated_at,
        created_by=row.created_by.username if row.created_by else None,
    )
