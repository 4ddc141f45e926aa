"""Whether a bundle is what its hub has signed, and whether that hub is one whose bundles the operator lets in."""

from __future__ import annotations

from django.conf import settings
from envhub.errors import ArchiveError
from envhub.packaging import bundle_keys
from envhub.packaging.bundles import read_manifest
from envhub.protocol.registry.bundles import BundleManifest, BundleSignature

from hub.bundles.services.keys import own_key
from hub.core.errors import Invalid, NotAllowed


def trusted_manifest(manifest: str, signature: BundleSignature) -> BundleManifest:
    """The manifest. Raises Invalid (changed, unreadable, too new) and NotAllowed (signed by nobody who is trusted)."""
    try:
        bundle_keys.verify(manifest, signature)
        _check_trusted(signature.key)
        return read_manifest(manifest)
    except ArchiveError as error:
        raise Invalid(error.message, code=error.code, hint=error.hint) from error


def _check_trusted(key: str) -> None:
    """By bytes: one key has several spellings."""
    known = {bundle_keys.read(one.partition(":")[2]) for one in (own_key(), *settings.HUB.trusted_bundle_keys)}
    if bundle_keys.read(key.partition(":")[2]) in known:
        return
    raise NotAllowed(
        f"the bundle is signed by {key}, which this hub does not trust",
        code="bundle_untrusted",
        hint="compare it with what `hub bundle key` prints at the hub that made the bundle; then the operator of this "
        f"hub adds it to its settings and starts it anew: HUB_TRUSTED_BUNDLE_KEYS='[\"{key}\"]'",
    )
