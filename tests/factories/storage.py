"""Blobs with real bytes behind them."""

from __future__ import annotations

import secrets

from hub.storage.models import EVERYBODY, Blob
from hub.storage.services import store_bytes


def make_blob(data: bytes | None = None) -> Blob:
    """A stored blob that every owner may refer to; of random bytes unless said otherwise."""
    return store_bytes(secrets.token_bytes(16) if data is None else data, holder=EVERYBODY)
