"""Webhooks and their messages."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from envhub.protocol.accounts.webhooks import DeliveryState

from hub.accounts.models import Owner
from hub.core.ids import new_id

ANSWER = 500  # characters that are kept of an answer


class Webhook(models.Model):
    """An address that is told what happens to an owner."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    url = models.CharField(max_length=500)
    events = models.JSONField(default=list)  # of envhub.protocol.accounts.webhooks.WebhookEvent
    encrypted_secret = models.TextField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    succeeded_at = models.DateTimeField(null=True, blank=True)  # the last time
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_why = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return self.url


class Delivery(models.Model):
    """One message. While it is being sent, `due_at` is when it is sent again if nothing is heard of that."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    event = models.CharField(max_length=32)
    body = models.TextField()  # JSON as it is signed
    state = models.CharField(
        max_length=9,
        choices=[(item.value, item.value) for item in DeliveryState],
        default=DeliveryState.WAITING.value,
    )
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    status = models.PositiveIntegerField(null=True, blank=True)
    duration_s = models.FloatField(null=True, blank=True)
    answer = models.CharField(max_length=ANSWER, blank=True)
    problem = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["webhook", "-id"], name="delivery_by_webhook"),
            models.Index(fields=["due_at"], name="delivery_due", condition=models.Q(state=DeliveryState.WAITING.value)),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook_id}"
