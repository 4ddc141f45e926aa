"""How judge models are called in a run. The catalogue knows; kinds of run whose apps may not import it ask here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from envhub.protocol.models.catalog import EndpointTarget

from hub.accounts.models import User

Lookup = Callable[[User, Mapping[str, str], UUID], dict[str, EndpointTarget]]
_lookups: list[Lookup] = []


def register_judges(lookup: Lookup) -> None:
    """Make the catalogue's lookup known; twice is a programming error."""
    if _lookups:
        raise RuntimeError("judges are looked up by somebody already")
    _lookups.append(lookup)


def judge_targets(user: User, judges: Mapping[str, str], owner_id: UUID) -> dict[str, EndpointTarget]:
    """Name that the environment asks for -> how to call the registered model, which `user` may see, or which belongs to
    the run's owner. Raises NotFound."""
    return _lookups[0](user, judges, owner_id) if judges else {}
