"""The keys that secrets are encrypted with: HUB_SECRETS_KEYS, newest first, or one derived from the secret key."""

from __future__ import annotations

import base64
from functools import cache

from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def make_keyring(keys: list[str], secret_key: str) -> MultiFernet:
    """Encrypts with the first key, decrypts with any. Raises ImproperlyConfigured on a malformed key.

    The derived key always comes last, so an installation may set HUB_SECRETS_KEYS later and rotate.
    """
    try:
        chosen = [Fernet(key) for key in keys]
    except ValueError as error:
        raise ImproperlyConfigured(
            "HUB_SECRETS_KEYS must hold Fernet keys: 32 bytes in URL-safe base64 each (`openssl rand -base64 32`)"
        ) from error
    return MultiFernet([*chosen, Fernet(_derive(secret_key))])


def _derive(secret_key: str) -> bytes:
    material = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"environments-hub/secrets/1").derive(
        secret_key.encode()
    )
    return base64.urlsafe_b64encode(material)


@cache
def keyring() -> MultiFernet:
    """The keys of this process."""
    return make_keyring(settings.HUB.secrets_keys, settings.SECRET_KEY)
