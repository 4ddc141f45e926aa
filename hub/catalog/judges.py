"""Makes registered models known as judges to hub.runs; imported once, when the apps are ready."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from envhub.protocol.models.catalog import EndpointTarget

from hub.accounts.models import User
from hub.catalog.queries import get_model
from hub.catalog.wire import target_for
from hub.runs.judges import register_judges


def judge_targets(user: User, judges: Mapping[str, str], owner_id: UUID) -> dict[str, EndpointTarget]:
    """Each judge's target. Raises NotFound for a model that is neither the owner's nor visible to the user."""
    return {asked: target_for(get_model(user, given, owner_id=owner_id)) for asked, given in judges.items()}


register_judges(judge_targets)
