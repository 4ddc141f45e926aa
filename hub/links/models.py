"""Share links, and what each of them shows."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from envhub.protocol.accounts.links import MOST_NOTE, LinkKind

from hub.accounts.models import Owner
from hub.core.ids import new_id
from hub.evals.models import Evaluation
from hub.training.models import TrainingRun

SUBJECT = 200


class ShareLink(models.Model):
    """Whoever holds its secret may read one thing. Of the secret only the hash is kept."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+", db_index=False)
    digest = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=10, choices=[(item.value, item.value) for item in LinkKind])
    training = models.ForeignKey(TrainingRun, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    sides = models.PositiveSmallIntegerField(default=0)  # evaluations: with one of them deleted, it shows nothing
    example = models.PositiveIntegerField(null=True, blank=True)  # of a rollout
    rollout = models.PositiveSmallIntegerField(null=True, blank=True)
    subject = models.CharField(max_length=SUBJECT)
    note = models.CharField(max_length=MOST_NOTE, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    opened = models.PositiveIntegerField(default=0)
    opened_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["owner", "-id"], name="share_link_by_owner")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class LinkedEvaluation(models.Model):
    """An evaluation that a link shows; A of a comparison is at 0."""

    link = models.ForeignKey(ShareLink, on_delete=models.CASCADE, related_name="evaluations")
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="+")
    position = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["link", "position"]
        constraints = [models.UniqueConstraint(fields=["link", "position"], name="linked_evaluation_once")]

    def __str__(self) -> str:
        return f"{self.evaluation_id} of {self.link_id}"
