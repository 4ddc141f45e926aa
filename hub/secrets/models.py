"""Secrets of owners, encrypted at rest."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from envhub.protocol.accounts.secrets import SECRET_NAME

from hub.accounts.models import Owner
from hub.core.ids import new_id


class Secret(models.Model):
    """One named value of an owner. `ciphertext` is a Fernet token; nothing ever returns the value but a run's grant."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=64, validators=[RegexValidator(SECRET_NAME, "like an environment variable")])
    ciphertext = models.TextField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="secret_once")]

    def __str__(self) -> str:
        return self.name
