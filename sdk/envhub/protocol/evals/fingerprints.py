"""Fingerprints of results: the SHA-256 of the canonical JSON of the settings that determine a result."""

from __future__ import annotations

import hashlib
import json

from envhub.protocol.base import Json, Response, Sha256, StoredObject


class FingerprintView(Response):
    """A fingerprint of results. Results with the same one were made by the same package, model name and settings.

    Of `settings`, people outside of the owner do not see all that the fingerprint is of.
    """

    sha256: Sha256
    settings: StoredObject


def canonical(value: Json) -> str:
    """Encode as JSON with sorted names, no spaces and unescaped Unicode, so that the text is the same everywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(settings: Json) -> FingerprintView:
    """Return the fingerprint of these settings."""
    digest = hashlib.sha256(canonical(settings).encode(errors="surrogatepass")).hexdigest()
    return FingerprintView(sha256=digest, settings=settings)
