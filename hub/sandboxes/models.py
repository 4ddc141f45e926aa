"""Sandboxes and their labels. Whether one waits, lives or has ended follows its run."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from envhub.protocol.sandboxes.sandboxes import SandboxState

from hub.accounts.models import ApiToken, Owner
from hub.core.ids import new_id
from hub.runs.models import Run


class Sandbox(models.Model):
    """What was asked for, and where its worker answers while it runs."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="sandboxes", db_index=False)
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="sandbox")
    name = models.CharField(max_length=100, blank=True)
    image = models.CharField(max_length=500)
    state = models.CharField(
        max_length=13,
        choices=[(state.value, state.value) for state in SandboxState],
        default=SandboxState.PENDING.value,
    )
    reason = models.CharField(max_length=2000, blank=True)
    cpus = models.FloatField(null=True, blank=True)
    memory_mb = models.PositiveIntegerField(null=True, blank=True)
    disk_mb = models.PositiveIntegerField(null=True, blank=True)
    timeout_s = models.FloatField()
    idle_s = models.FloatField(null=True, blank=True)
    start_command = models.JSONField(default=list, db_default=[])  # its words
    allow_hosts = models.JSONField(default=list)
    model_names = models.JSONField(default=list, db_default=[])  # that it may call
    siblings = models.PositiveIntegerField(default=0, db_default=0)  # that programs outside may have beside it
    model_token = models.ForeignKey(ApiToken, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    variables = models.JSONField(default=list)  # names only
    encrypted_env = models.TextField(blank=True)  # until it has ended
    base_url = models.CharField(max_length=500, blank=True)
    encrypted_secret = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["owner", "-id"], name="sandbox_by_owner"),
            models.Index(fields=["owner", "state", "-id"], name="sandbox_by_owner_state"),
        ]

    def __str__(self) -> str:
        return self.name or f"{self.image} {self.id}"

    @property
    def title(self) -> str:
        """What people call it."""
        return self.name or self.image


class SandboxPort(models.Model):
    """An address that leads to a port, until it expires or somebody closes it: its row is deleted then."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    sandbox = models.ForeignKey(Sandbox, on_delete=models.CASCADE, related_name="port_rows")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name or str(self.number)


class SandboxLabel(models.Model):
    """One label of a sandbox: rows, since not every database finds texts inside of JSON."""

    sandbox = models.ForeignKey(Sandbox, on_delete=models.CASCADE, related_name="label_rows")
    text = models.CharField(max_length=100)

    class Meta:
        ordering = ["pk"]  # as they were given
        constraints = [models.UniqueConstraint(fields=["sandbox", "text"], name="sandbox_label_once")]
        indexes = [models.Index(fields=["text", "sandbox"], name="sandbox_by_label")]

    def __str__(self) -> str:
        return self.text
