"""Catalog rows as wire types. `target_for` holds keys: it is for claims and the gateway only."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath

from envhub.protocol.base import BlobRef
from envhub.protocol.models.catalog import (
    EndpointKind,
    EndpointTarget,
    LocalTarget,
    ModelFiles,
    ModelSource,
    ModelView,
    VariantView,
)
from envhub.protocol.visibility import Visibility

from hub.catalog.capacity import Capacity
from hub.catalog.models import Model, Variant
from hub.catalog.targets import outbound_policy, target_variant
from hub.core.errors import Conflict
from hub.storage.queries import presign_get


def model_view(row: Model, capacity: Capacity, *, inside: bool) -> ModelView:
    """A model without its secrets; expects `owner`, `base` and `variants` to be loaded.

    Only `inside`, to its owner's members, it shows where its endpoints are and what their last failure said.
    """
    local = row.source == ModelSource.LOCAL.value
    missing = capacity.missing(row) if local else ""
    return ModelView(
        id=str(row.pk),
        owner=row.owner.slug,
        name=row.name,
        source=ModelSource(row.source),
        variants=tuple(_variant_view(variant, inside=inside) for variant in row.variants.all()),
        engine=row.engine or None,
        visibility=Visibility(row.visibility),
        created_at=row.created_at,
        last_error=row.last_error if inside or not row.last_error else "its last test failed",
        base=f"{row.base.owner.slug}/{row.base.name}" if row.base else "",
        trainable=row.trainable and capacity.trains(row) if local else False,
        servable=capacity.serves(row) if local else None,
        parameters=row.parameters,
        input_price=row.input_price,
        output_price=row.output_price,
        needs="; ".join(part for part in (row.needs, missing) if part),
    )


def model_files_view(row: Model) -> ModelFiles:
    """Where the files of a model lie. Raises Conflict (code `no_files`) for an endpoint."""
    if row.source != ModelSource.LOCAL.value:
        raise Conflict(f"{row.owner.slug}/{row.name} is an endpoint: the hub has no files of it", code="no_files")
    files = {
        file.path: BlobRef(
            sha256=file.blob_id,
            size=file.blob.size,
            url=presign_get(file.blob_id, filename=PurePosixPath(file.path).name),
        )
        for file in row.files.select_related("blob")
    }
    return ModelFiles(files=files, base=f"{row.base.owner.slug}/{row.base.name}" if row.base else "")


def _variant_view(row: Variant, *, inside: bool) -> VariantView:
    return VariantView(
        kind=EndpointKind(row.kind),
        base_url=row.base_url if inside else "",
        model=row.remote_model,
        has_key=bool(row.encrypted_key),
        timeout_s=row.timeout_s,
        max_retries=row.max_retries,
    )


def target_for(model: Model) -> EndpointTarget:
    """How to call the model, with its keys (decrypted) or presigned file URLs. Never for users, never into a box."""
    local = _local_target(model) if model.source == ModelSource.LOCAL.value else None
    return EndpointTarget(
        model=f"{model.owner.slug}/{model.name}",
        variants=tuple(target_variant(variant) for variant in model.variants.all()),
        local=local,
        outbound=outbound_policy(),
    )


def _local_target(model: Model) -> LocalTarget:
    if model.base is None:
        return files_target(model)
    return files_target(model.base).model_copy(update={"engine": model.engine, "adapter": files_target(model)})


def files_target(model: Model) -> LocalTarget:
    """The model's own files alone: of an adapter, the adapter's."""
    files = {file.path: file.blob_id for file in model.files.all()}
    urls = {path: presign_get(sha256, filename=path.rpartition("/")[2]) for path, sha256 in files.items()}
    return LocalTarget(fingerprint=fingerprint(files), engine=model.engine, files=files, urls=urls)


def fingerprint(files: dict[str, str]) -> str:
    """SHA-256 over (path, sha256) in path order: names a directory's content."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()
