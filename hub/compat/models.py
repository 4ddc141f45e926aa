"""What must be remembered between two calls of one upload."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from hub.accounts.models import Owner
from hub.core.ids import new_id
from hub.evals.models import Evaluation
from hub.runs.models import Run
from hub.sandboxes.models import Sandbox


class BegunPush(models.Model):
    """A push between its calls: the wheel is announced before the source that it was built of."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)  # of the environment, normalised
    content_hash = models.CharField(max_length=64)  # the client's own, of the folder
    visibility = models.CharField(max_length=8, blank=True)  # envhub.protocol.visibility; empty: as it is
    wheel_filename = models.CharField(max_length=255)
    wheel_sha256 = models.CharField(max_length=64)
    wheel_size = models.PositiveBigIntegerField()
    source_sha256 = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name", "content_hash"], name="begun_push_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.content_hash[:8]}"


class BegunImage(models.Model):
    """A build of an image between its calls, and how clients ask for it afterwards."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=300)  # envhub.protocol.sandboxes.images.canonical
    everybody = models.BooleanField(default=False)
    visibility = models.CharField(max_length=8, blank=True)  # envhub.protocol.visibility; empty: as it is
    dockerfile = models.CharField(max_length=300)
    context_sha256 = models.CharField(max_length=64, blank=True)  # empty: not uploaded yet
    context_size = models.PositiveBigIntegerField(default=0)
    run = models.OneToOneField(Run, null=True, on_delete=models.CASCADE, related_name="+")  # once it was started
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class SampleBatch(models.Model):
    """A request of samples that is stored: the clients send it again when its answer was lost."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)  # SHA-256 of its samples as canonical JSON

    class Meta:
        constraints = [models.UniqueConstraint(fields=["evaluation", "digest"], name="sample_batch_once")]

    def __str__(self) -> str:
        return self.digest[:8]


class KeyedSandbox(models.Model):
    """A sandbox that was asked for with a key of the client's own: it asks again when it heard no answer."""

    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    sandbox = models.OneToOneField(Sandbox, on_delete=models.CASCADE, primary_key=True, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["created_by", "key"], name="keyed_sandbox_once")]

    def __str__(self) -> str:
        return self.key
