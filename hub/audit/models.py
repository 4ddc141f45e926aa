"""The log. Its rows hold names instead of references: they outlive what they tell of."""

from __future__ import annotations

from django.db import models

from hub.core.ids import new_id


class AuditEntry(models.Model):
    """One write. Bodies, secrets and whole tokens are not in it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.CharField(max_length=64)  # user name
    owner_id = models.UUIDField(null=True)  # for whom; kept when the owner is gone, so that a namesake does not see it
    owner_slug = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=200)
    subject = models.CharField(max_length=200, blank=True)
    address = models.CharField(max_length=64, blank=True)
    token_prefix = models.CharField(max_length=16, blank=True)  # empty: a session of a browser
    request_id = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["owner_id", "-id"], name="audit_by_owner"),
            models.Index(fields=["owner_id", "actor", "-id"], name="audit_by_owner_actor"),
            models.Index(fields=["owner_id", "action", "-id"], name="audit_by_owner_action"),
            models.Index(fields=["owner_id", "token_prefix", "-id"], name="audit_by_owner_token"),
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["action", "-id"], name="audit_by_action"),
            models.Index(fields=["token_prefix", "-id"], name="audit_by_token"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject}"
