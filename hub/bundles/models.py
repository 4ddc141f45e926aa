"""The key with which this hub signs."""

from __future__ import annotations

from django.db import models

OWN = "own"


class SigningKey(models.Model):
    """One row, made when the key is first needed. The private part is encrypted as secrets are."""

    name = models.CharField(max_length=16, primary_key=True, default=OWN)
    public = models.CharField(max_length=64)  # as envhub.protocol.registry.bundles has keys
    encrypted_key = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.public
