"""SHA-256 of secrets and content, and fresh random secrets."""

from __future__ import annotations

import hashlib
import secrets


def sha256_hex(text: str) -> str:
    """Lower-case hexadecimal SHA-256 of `text`. Enough for secrets of 32 random bytes: no salt, no stretching."""
    return hashlib.sha256(text.encode()).hexdigest()


def new_secret(prefix: str) -> str:
    """`prefix` and 32 random bytes, URL-safe."""
    return prefix + secrets.token_urlsafe(32)
