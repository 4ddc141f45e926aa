"""Archived environments are read-only: every change of one or of its versions checks this first.

It can still be starred, and deleted as a whole.
"""

from __future__ import annotations

from hub.core.errors import Conflict
from hub.registry.models import Environment


def require_not_archived(environment: Environment) -> None:
    """Raises Conflict if the environment is archived."""
    if environment.archived:
        name = f"{environment.owner.slug}/{environment.name}"
        hint = f"a maintainer of {environment.owner.slug} can unarchive it: `hub env unarchive {name}`"
        raise Conflict(f"{name} is archived: it is read-only", code="archived", hint=hint)
