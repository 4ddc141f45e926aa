"""Blobs: bytes by SHA-256. The bytes lie in object storage; the row says that they are there."""

from __future__ import annotations

from uuid import UUID

from django.db import models

EVERYBODY = UUID(int=0)  # the holder of what anybody may refer to: wheels of the public index


class Blob(models.Model):
    """One immutable piece of content. Other apps refer to it with on_delete=PROTECT."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size = models.BigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.sha256[:12]


class BlobHolder(models.Model):
    """An owner that has shown the bytes, so that naming their hash is enough from then on; see storage.services.

    `holder` is an owner's id or EVERYBODY. It keeps nothing alive: a collected blob is uploaded again.
    """

    blob = models.ForeignKey(Blob, on_delete=models.CASCADE, related_name="holders")
    holder = models.UUIDField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["blob", "holder"], name="blob_holder_once")]

    def __str__(self) -> str:
        return f"{self.blob_id[:12]} of {self.holder}"


class PendingUpload(models.Model):
    """Bytes that may come into an inbox, or lie there unconfirmed. Deleted when they are confirmed or collected."""

    inbox = models.UUIDField()
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["inbox", "sha256"], name="pending_upload_once")]

    def __str__(self) -> str:
        return f"{self.sha256[:12]} in {self.inbox}"


class StorageUse(models.Model):
    """Bytes of all blobs of one holder; see hub.storage.quota, which alone moves it."""

    holder = models.UUIDField(primary_key=True)
    size = models.BigIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["-size"], name="storage_use_by_size")]

    def __str__(self) -> str:
        return f"{self.size} bytes of {self.holder}"


class GarbagePass(models.Model):
    """What the newest pass of the garbage collection found; one row. Nobody counts blobs to show a page."""

    name = models.CharField(max_length=16, primary_key=True)
    ended_at = models.DateTimeField()
    paused = models.BooleanField(default=False)  # a backup stopped it before its end
    deleted = models.PositiveBigIntegerField()
    deleted_bytes = models.PositiveBigIntegerField()
    kept = models.PositiveBigIntegerField()  # in use
    kept_bytes = models.PositiveBigIntegerField()
    young = models.PositiveBigIntegerField()  # not looked at yet: what nobody refers to goes the next time
    young_bytes = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.deleted} of {self.kept + self.deleted} blobs deleted"


class GarbagePause(models.Model):
    """Whether the garbage collection may delete, and the lock with which it asks; see hub.storage.garbage_pause."""

    name = models.CharField(max_length=16, primary_key=True)
    holder = models.CharField(max_length=100, blank=True, default="")  # empty: it may
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder}"
