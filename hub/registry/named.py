"""Addresses of environments, for texts that name them."""

from __future__ import annotations

from collections.abc import Collection

from django.urls import reverse

from hub.accounts.models import User
from hub.accounts.named import Reference
from hub.registry.queries import visible_environments

WORDS = ("environment", "version", "star")


def environment_addresses(user: User, references: Collection[Reference]) -> dict[Reference, str]:
    """Return those that the user may see."""
    rows = visible_environments(user).filter(
        owner__slug__in={owner for owner, _ in references}, name__in={name for _, name in references}
    )
    found = {(owner, name) for owner, name in rows.values_list("owner__slug", "name")}
    return {one: reverse("environment", args=one) for one in found.intersection(references)}
