"""Models that evaluations and /inference/v1 can name: outside endpoints with their variants, local directories.

An adapter is a local directory with a `base`: its files are a LoRA adapter, served over the base's.
"""

from __future__ import annotations

import re

from django.db import models
from envhub.protocol.models.catalog import EndpointKind, ModelSource
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner
from hub.core.ids import new_id
from hub.storage.models import Blob

MODEL_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?")


class Model(models.Model):
    """`owner/name`. What answers its calls is in `variants` (source endpoint) or in `files` (source local)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="models")
    name = models.CharField(max_length=128)
    source = models.CharField(max_length=8, choices=[(item.value, item.value) for item in ModelSource])
    visibility = models.CharField(
        max_length=8, choices=[(item.value, item.value) for item in Visibility], default=Visibility.PRIVATE.value
    )
    engine = models.CharField(max_length=8, blank=True)  # "torch" or "vllm" when local
    base = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="adapters")
    trainable = models.BooleanField(default=False)  # its files are those of a decoder with weights
    parameters = models.BigIntegerField(null=True, blank=True)
    needs = models.CharField(max_length=200, blank=True)  # what training and serving take
    input_price = models.FloatField(null=True, blank=True)  # US dollars for a million prompt tokens
    output_price = models.FloatField(null=True, blank=True)
    last_error = models.TextField(blank=True)  # of the last test
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="model_once")]
        indexes = [
            models.Index(fields=["owner", "-id"], name="model_by_owner"),
            models.Index(fields=["visibility", "-id"], name="model_by_visibility"),
        ]

    def __str__(self) -> str:
        return self.name


class Variant(models.Model):
    """One address of an endpoint model. The key and the headers (they may hold keys too) are encrypted."""

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="variants")
    position = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=16, choices=[(item.value, item.value) for item in EndpointKind])
    base_url = models.CharField(max_length=500)
    remote_model = models.CharField(max_length=255)
    encrypted_key = models.TextField(blank=True)  # empty: no key
    encrypted_headers = models.TextField(blank=True)  # of a JSON object; empty: none
    timeout_s = models.FloatField()
    max_retries = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["model", "position"]
        constraints = [models.UniqueConstraint(fields=["model", "position"], name="variant_position_once")]

    def __str__(self) -> str:
        return self.base_url


class ModelFile(models.Model):
    """One file of a local model directory."""

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=255)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["model", "path"]
        constraints = [models.UniqueConstraint(fields=["model", "path"], name="model_file_once")]

    def __str__(self) -> str:
        return self.path
