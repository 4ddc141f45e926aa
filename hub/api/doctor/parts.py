"""The broker and the object storage, each by doing what the hub does with it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from io import BytesIO

from django.conf import settings

from hub.api.doctor.findings import Finding, failure, ok
from hub.core.errors import HubError
from hub.core.queue import check_broker
from hub.storage.queries import backend


def look_at_broker() -> Iterator[Finding]:
    """Connects."""
    kind = settings.HUB.resolved_broker_url().partition(":")[0]
    try:
        check_broker()
    except HubError as error:
        yield failure(
            "broker",
            f"{error.message} ({kind})",
            "start it, or set HUB_BROKER_URL right; until then no run is sent",
        )
        return
    yield ok("broker", f"answers ({kind})")


def look_at_storage() -> Iterator[Finding]:
    """Writes an object of its own, reads it back and deletes it."""
    content = secrets.token_bytes(64)
    sha256 = hashlib.sha256(content).hexdigest()
    kind = settings.HUB.storage
    try:
        read = _round_trip(sha256, content)
    except (HubError, OSError) as error:
        mend = "look at the rights and the disk of HUB_DATA" if kind == "files" else "look at HUB_S3_* and AWS_*"
        yield failure("storage", f"an object cannot be kept ({kind}): {error}", mend)
        return
    if read != content:
        yield failure("storage", "an object comes back changed", "look at the disk, or at what lies before the storage")
        return
    yield ok("storage", f"an object was written, read back and deleted ({kind})")


def _round_trip(sha256: str, content: bytes) -> bytes:
    store = backend()
    try:
        store.write(sha256, BytesIO(content))
        with store.open(sha256) as stream:
            return stream.read()
    finally:
        store.delete(sha256)
