"""Addresses of models, for texts that name them."""

from __future__ import annotations

from collections.abc import Collection

from hub.accounts.models import User
from hub.accounts.named import Reference
from hub.catalog.queries import visible_models

WORDS = ("model",)


def model_addresses(user: User, references: Collection[Reference]) -> dict[Reference, str]:
    """Return those that the user may see."""
    rows = visible_models(user).prefetch_related(None).order_by()
    rows = rows.filter(owner__slug__in={owner for owner, _ in references}, name__in={name for _, name in references})
    found = {(owner, name) for owner, name in rows.values_list("owner__slug", "name")}
    return {(owner, name): f"/models/{owner}/{name}" for owner, name in found.intersection(references)}
