"""The keys that secrets are encrypted with: HUB_SECRETS_KEYS, newest first, or one derived from the secret key."""

from __future__ import annotations

import base64
import hmac
from functools import cache

from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def make_keys(keys: list[str], secret_key: str) -> list[str]:
    """Fernet keys, newest first. The derived key always comes last, so an installation may set HUB_SECRETS_KEYS later
    and rotate.
    """
    return [*keys, _derive(secret_key).decode()]


def make_keyring(keys: list[str], secret_key: str) -> MultiFernet:
    """Encrypts with the first key, decrypts with any. Raises ImproperlyConfigured on a malformed key."""
    try:
        return MultiFernet([Fernet(key) for key in make_keys(keys, secret_key)])
    except ValueError as error:
        raise ImproperlyConfigured(
            "HUB_SECRETS_KEYS must hold Fernet keys: 32 bytes in URL-safe base64 each (`openssl rand -base64 32`)"
        ) from error


def key_id(key: str) -> str:
    """What tells keys apart and says nothing about them."""
    return hmac.digest(base64.urlsafe_b64decode(key), b"environments-hub/key-id/1", "sha256").hex()[:12]


def _derive(secret_key: str) -> bytes:
    material = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"environments-hub/secrets/1").derive(
        secret_key.encode()
    )
    return base64.urlsafe_b64encode(material)


@cache
def keyring() -> MultiFernet:
    """The keys of this process."""
    return make_keyring(settings.HUB.secrets_keys, settings.SECRET_KEY)


def own_keys() -> dict[str, Fernet]:
    """The keys of this process by their ids, newest first."""
    return {key_id(key): Fernet(key) for key in make_keys(settings.HUB.secrets_keys, settings.SECRET_KEY)}
