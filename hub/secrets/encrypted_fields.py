"""Which text fields hold ciphertext, so that key rotation finds them all. Imports no models: apps.py may use it."""

from __future__ import annotations

from django.db import models

_fields: list[tuple[type[models.Model], str]] = []


def register_encrypted_field(model: type[models.Model], field: str) -> None:
    """Let `rotate_secrets` re-encrypt a text field. Called in AppConfig.ready."""
    if (model, field) not in _fields:
        _fields.append((model, field))


def encrypted_fields() -> tuple[tuple[type[models.Model], str], ...]:
    """All that were registered."""
    return tuple(_fields)
