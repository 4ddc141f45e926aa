"""Notifications of users, and which of them they want. How many are unread stands with the user."""

from __future__ import annotations

from django.db import models
from envhub.protocol.accounts.notices import Follows, NoticeKind

from hub.accounts.models import User
from hub.core.ids import new_id


class Notice(models.Model):
    """One thing that a user is told. It holds words and an address, and outlives what it tells of."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=8, choices=[(item.value, item.value) for item in NoticeKind])
    text = models.CharField(max_length=400)
    detail = models.CharField(max_length=300, blank=True)
    url = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    read_at = models.DateTimeField(null=True, blank=True)
    mail_due_at = models.DateTimeField(null=True, blank=True)  # until it is sent by mail, where that is wanted

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"], name="notice_by_user"),
            models.Index(fields=["user"], name="notice_unread", condition=models.Q(read_at__isnull=True)),
            models.Index(fields=["mail_due_at"], name="notice_to_mail", condition=models.Q(mail_due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.text


class NoticeSettings(models.Model):
    """What a user wants to be told; no row means the defaults."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="+")
    runs = models.CharField(
        max_length=8, choices=[(item.value, item.value) for item in Follows], default=Follows.OWN.value
    )
    notes = models.BooleanField(default=True)
    mail = models.BooleanField(default=False, db_default=False)  # also by mail

    def __str__(self) -> str:
        return f"{self.user_id}: {self.runs}"
