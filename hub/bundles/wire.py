"""What became of an import, on the wire."""

from __future__ import annotations

from envhub.protocol.registry.bundles import BundleImported

from hub.bundles.services.arrived import Imported
from hub.registry.queries import version_with_owner
from hub.registry.wire import version_view


def imported_view(done: Imported) -> BundleImported:
    """The answer to one call of an import."""
    made = done.done
    return BundleImported(
        missing=done.missing,
        left=done.left,
        version=version_view(version_with_owner(made.version.pk)) if made else None,
        created=made is not None and made.created,
        build_run_id=str(made.build.pk) if made and made.build else None,
        added=done.added,
        lacking=done.lacking,
    )
