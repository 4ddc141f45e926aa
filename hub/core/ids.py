"""Primary keys: UUIDv7, so that ordering by id is ordering by creation and keyset pagination needs no second column."""

from __future__ import annotations

import uuid

import uuid_utils


def new_id() -> uuid.UUID:
    """A fresh UUIDv7."""
    return uuid.UUID(bytes=uuid_utils.uuid7().bytes)
