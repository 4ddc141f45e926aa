"""Writes of the bundles app: the hub's key, exports, imports."""

from hub.bundles.services.exporting import export_bundle
from hub.bundles.services.importing import import_bundle
from hub.bundles.services.keys import own_key, renew_key, sign

__all__ = ["export_bundle", "import_bundle", "own_key", "renew_key", "sign"]
