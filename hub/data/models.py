"""Snapshots of repositories: a revision's files, whose bytes are blobs once somebody asked for them."""

from __future__ import annotations

from django.db import models

from hub.core.ids import new_id
from hub.storage.models import Blob


class RepositoryKind(models.TextChoices):
    """What a repository holds; the two have separate namespaces."""

    DATASET = "dataset"
    MODEL = "model"


class Snapshot(models.Model):
    """One revision. The `pinned` one is what `main` means to everybody until an operator refreshes it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=8, choices=RepositoryKind)
    repository = models.CharField(max_length=200)  # "openai/gsm8k", or "gsm8k"
    revision = models.CharField(max_length=40)  # a commit id upstream; of snapshots added by hand, of the content
    upstream = models.BooleanField(default=False)  # missing files are fetched from the operator's endpoint
    pinned = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "repository", "revision"], name="snapshot_once"),
            models.UniqueConstraint(
                fields=["kind", "repository"], condition=models.Q(pinned=True), name="one_pinned_snapshot"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision[:8]}"


class SnapshotFile(models.Model):
    """A file of a snapshot; without a blob its bytes are still upstream."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=500)
    size = models.BigIntegerField()
    oid = models.CharField(max_length=64, blank=True)  # upstream's: SHA-256 or git's id; empty: added by hand
    blob = models.ForeignKey(Blob, null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["snapshot", "path"], name="snapshot_file_once")]

    def __str__(self) -> str:
        return self.path

    @property
    def etag(self) -> str:
        """Names the content: the same before and after its bytes are fetched."""
        return self.oid or self.blob_id or ""
