"""The fingerprint of a result: SHA-256 of the canonical JSON of the settings that decide it."""

from __future__ import annotations

import hashlib
import json

from envhub.protocol.base import Json, Response, Sha256, StoredObject


class FingerprintView(Response):
    """Two results with one fingerprint were made by the same package, model name and settings."""

    sha256: Sha256
    settings: StoredObject


def canonical(value: Json) -> str:
    """JSON with sorted names, without spaces, in UTF-8: the same text wherever it is made."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(settings: Json) -> FingerprintView:
    """Of these settings."""
    digest = hashlib.sha256(canonical(settings).encode(errors="surrogatepass")).hexdigest()
    return FingerprintView(sha256=digest, settings=settings)
