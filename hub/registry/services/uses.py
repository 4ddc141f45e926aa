"""What the checks of a version load, noted as they do: so a bundle of the version knows what belongs into it."""

from __future__ import annotations

from functools import lru_cache

from django.db.models import Q

from hub.core.needs import Use
from hub.registry.models import Version, VersionUse

REMEMBERED = 4096  # uses in each web process: a load reads the same data set by many requests


@lru_cache(maxsize=REMEMBERED)
def keep_use(use: Use) -> None:
    """Of runs that build or check a version; what evaluations choose by arguments is not the version's."""
    version = Version.objects.filter(Q(build_run=use.run_id) | Q(check_run=use.run_id)).only("pk").first()
    if version is not None:
        VersionUse.objects.get_or_create(
            version=version, kind=use.kind.value, name=use.name[:1000], revision=use.revision
        )
