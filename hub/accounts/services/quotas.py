"""Setting an owner's own quota."""

from __future__ import annotations

from envhub.protocol.accounts.quotas import QuotaRequest

from hub.accounts.acting import note_owner
from hub.accounts.models import Owner, OwnerQuota


def set_quota(*, owner: Owner, request: QuotaRequest) -> OwnerQuota:
    """Replace an owner's own quota; one without any figure is removed, and the hub's settings apply again."""
    note_owner(owner)
    figures = request.model_dump()
    if not any(figure is not None for figure in figures.values()):
        OwnerQuota.objects.filter(owner=owner).delete()
        return OwnerQuota(owner=owner)
    found, _ = OwnerQuota.objects.update_or_create(owner=owner, defaults=figures)
    return found
