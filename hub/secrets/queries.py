"""Reads of secrets: names, never values."""

from __future__ import annotations

from django.db.models import QuerySet

from hub.accounts.models import Owner
from hub.core.errors import NotFound
from hub.secrets.models import Secret


def secrets_of(owner: Owner) -> QuerySet[Secret]:
    """The owner's secrets by name."""
    return Secret.objects.filter(owner=owner).select_related("owner", "created_by").defer("ciphertext").order_by("name")


def get_secret(owner: Owner, name: str) -> Secret:
    """One secret. Raises NotFound."""
    found = secrets_of(owner).filter(name=name).first()
    if found is None:
        raise NotFound(f"{owner.slug} has no secret {name}")
    return found
