"""The broker and the object storage, each by doing what the hub does with it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from io import BytesIO

import httpx
from botocore.exceptions import ClientError, NoCredentialsError, PartialCredentialsError
from django.conf import settings

from hub.api.doctor.findings import Finding, failure, ok, warning
from hub.core.errors import HubError
from hub.core.queue import check_broker
from hub.storage.backends.interface import Backend
from hub.storage.queries import backend

KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY right"
MENDS = {
    "NoSuchBucket": "create the bucket, or set HUB_S3_BUCKET right",
    "InvalidAccessKeyId": KEYS,
    "SignatureDoesNotMatch": KEYS,
    "AccessDenied": "let these credentials list the bucket and read, write and delete its objects",
    "RequestTimeTooSkewed": "synchronize the clocks of this host and of the storage by NTP",
}
PROXY = "a proxy there must keep the Host header and have a certificate that is trusted here"
PATIENCE_S = 10.0


def look_at_broker() -> Iterator[Finding]:
    """Connects."""
    kind = settings.HUB.resolved_broker_url().partition(":")[0]
    try:
        check_broker()
    except HubError as error:
        yield failure(
            "broker",
            f"{error.message} ({kind}): {_reason(error)}",
            "start it, or set HUB_BROKER_URL right; until then no run is sent",
        )
        return
    yield ok("broker", f"answers ({kind})")


def look_at_storage() -> Iterator[Finding]:
    """Writes an object of its own, reads it back as the hub does and as users do, and deletes it."""
    content = secrets.token_bytes(64)
    sha256 = hashlib.sha256(content).hexdigest()
    store, kind = backend(), settings.HUB.storage
    try:
        store.write(sha256, BytesIO(content))
        try:
            with store.open(sha256) as stream:
                read = stream.read()
            outside = list(_from_outside(store, sha256, content)) if kind == "s3" else []
        finally:
            store.delete(sha256)
    except (HubError, OSError) as error:
        yield failure("storage", f"an object cannot be kept ({kind}): {_reason(error)}", _mend(error, kind))
        return
    if read != content:
        yield failure("storage", "an object comes back changed", "look at the disk, or at what lies before the storage")
        return
    yield ok("storage", f"an object was written, read back and deleted ({kind})")
    yield from outside


def _from_outside(store: Backend, sha256: str, content: bytes) -> Iterator[Finding]:
    """By a signed address of HUB_S3_PUBLIC_ENDPOINT_URL. This host may not reach what users do: hence a warning."""
    where = httpx.URL(store.presign_get(sha256, filename="doctor", seconds=60))
    place = f"{where.scheme}://{where.netloc.decode()}"
    try:
        answer = httpx.get(where, timeout=PATIENCE_S)
        problem = "" if answer.content == content else f"{answer.status_code} {answer.text[:200]!r}"
    except httpx.HTTPError as error:
        problem = str(error)
    if problem:
        mend = f"set HUB_S3_PUBLIC_ENDPOINT_URL right; {PROXY}"
        yield warning("downloads", f"users and workers are sent to {place}, which answers from here: {problem}", mend)
    else:
        yield ok("downloads", f"a signed address at {place} works")


def _reason(error: Exception) -> str:
    """What lies behind it, in one line."""
    code, cause = _code(error), error.__cause__
    if code or cause is None:
        return error.message if isinstance(error, HubError) else str(error)
    return " ".join(str(cause).split())


def _code(error: Exception) -> str:
    cause = error.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


def _mend(error: Exception, kind: str) -> str:
    if kind == "files":
        return "look at the rights and the disk of HUB_DATA"
    if isinstance(error.__cause__, (NoCredentialsError, PartialCredentialsError)):
        return KEYS
    reach = "start it, or set HUB_S3_ENDPOINT_URL right"
    return MENDS.get(_code(error), "look at HUB_S3_* and AWS_*" if _code(error) else reach)
