"""Writes of the catalog: registering, testing and removing models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError
from envhub.client.outside.addresses import OutboundRefused, split
from envhub.protocol.models.catalog import EndpointVariant, ModelRequest, ModelSource, ModelTest, TargetVariant
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.catalog.contents import Described, describe
from hub.catalog.models import MODEL_NAME, Model, ModelFile, Variant
from hub.catalog.probe import probe_all
from hub.catalog.targets import outbound_policy, target_variant
from hub.core.errors import Conflict, Invalid
from hub.secrets.services import decrypt, encrypt
from hub.storage.models import Blob
from hub.storage.services import confirm_blob

ENGINES = ("torch", "vllm")
_NO_PRICE = {"input_price": None, "output_price": None}  # of a model that the hub serves itself


def register_endpoint(*, user: User, owner: Owner, request: ModelRequest) -> Model:
    """Save (or replace) a model by its endpoints; `request.test` calls each first. Raises NotAllowed, Invalid."""
    require_role(user, owner, Role.MEMBER)
    _check_urls(request.variants)
    _check_headers(request.variants)
    existing = Model.objects.filter(owner=owner, name=request.name).first()
    variants = [_with_kept_key(existing, variant) for variant in request.variants]
    if request.test:
        _test_before_saving(variants)
    with transaction.atomic():
        prices: dict[str, Any] = request.model_dump(include={"input_price", "output_price"}, exclude_none=True)
        model = _save(owner, request.name, ModelSource.ENDPOINT, request.visibility, **prices)
        Variant.objects.bulk_create(_row(model, position, variant) for position, variant in enumerate(variants))
    return model


def register_local(
    *,
    owner: Owner,
    name: str,
    engine: str,
    files: Mapping[str, str],
    visibility: Visibility | None = None,
    user: User | None = None,
) -> Model:
    """Save (or replace) a model directory: relative path -> SHA-256 of an uploaded blob. Raises NotAllowed, Invalid.

    Without `user` it is the installation itself that registers (a management command, a finished training run).
    """
    if user is not None:
        require_role(user, owner, Role.MEMBER)
    if engine not in ENGINES:
        raise Invalid(f"the engine must be one of {', '.join(ENGINES)}", fields={"engine": engine})
    blobs = {_checked_path(path): _blob(sha256, owner, user) for path, sha256 in files.items()}
    shape = describe(blobs)
    with transaction.atomic():
        if (same := _same_files(owner, name, engine, files)) is not None:
            return _seen_by(same, visibility)
        model = _save(owner, name, ModelSource.LOCAL, visibility, engine=engine, **shape.fields(), **_NO_PRICE)
        ModelFile.objects.bulk_create(ModelFile(model=model, path=path, blob=blob) for path, blob in blobs.items())
    return model


def register_adapter(
    *, owner: Owner, name: str, base: Model, files: Mapping[str, str], visibility: Visibility
) -> Model:
    """Save (or replace) a LoRA adapter of `base` that a training run has made; the blobs are confirmed. Raises Invalid.

    It is served by the base's engine.
    """
    blobs = {_checked_path(path): _blob(sha256, owner, None) for path, sha256 in files.items()}
    shape = Described(trainable=base.trainable, parameters=base.parameters, needs=base.needs)
    with transaction.atomic():
        fields = shape.fields() | {"base": base} | _NO_PRICE
        model = _save(owner, name, ModelSource.LOCAL, visibility, engine=base.engine, **fields)
        ModelFile.objects.bulk_create(ModelFile(model=model, path=path, blob=blob) for path, blob in blobs.items())
    return model


def probe_model(*, user: User, model: Model) -> ModelTest:
    """Call every variant once now and remember what failed. A local model is tested by its first run."""
    require_role(user, model.owner, Role.MEMBER)
    results = probe_all([target_variant(row) for row in model.variants.all()], outbound_policy())
    failures = [f"{result.base_url}: {result.message}" for result in results if not result.ok]
    Model.objects.filter(pk=model.pk).update(last_error="\n".join(failures))
    return ModelTest(ok=not failures, variants=results)


def delete_model(*, user: User, model: Model) -> None:
    """Remove a model; evaluations keep its name. Raises NotAllowed, Conflict (`in_use`) when still used."""
    require_role(user, model.owner, Role.MEMBER)
    try:
        model.delete()
    except ProtectedError as error:
        raise _in_use(f"{model.owner.slug}/{model.name}", error) from error


def _in_use(reference: str, error: ProtectedError) -> Conflict:
    """What still refers to a model, and how to end that. Not counted: it may be others'."""
    kinds = {"adapter" if isinstance(row, Model) else str(row._meta.verbose_name) for row in error.protected_objects}
    found = " and ".join(f"{kind}s" for kind in sorted(kinds))
    served = f"`hub deploy delete {reference}` stops serving it"
    hint = served if "deployment" in kinds else "delete them first"
    return Conflict(f"{reference} cannot be deleted: still in use by {found}", code="in_use", hint=hint)


def _save(
    owner: Owner, name: str, source: ModelSource, visibility: Visibility | None, engine: str = "", **fields: Any
) -> Model:
    """The row, created or replaced, without variants and files."""
    if not MODEL_NAME.fullmatch(name):
        raise Invalid(
            "a model's name may contain lower-case letters, digits and inner . _ -", fields={"name": name[:200]}
        )
    values = {"source": source.value, "engine": engine, "last_error": "", "base": None, **Described().fields()} | fields
    if visibility is not None:
        values["visibility"] = visibility.value
    if Model.objects.filter(base__owner=owner, base__name=name).exists():
        raise Conflict(
            f"the files of {owner.slug}/{name} cannot be replaced: adapters depend on them",
            code="in_use",
            hint="use another name",
        )
    trained_on = {"training_runs__isnull": False, "training_runs__finished_at__isnull": True}
    if Model.objects.filter(owner=owner, name=name, **trained_on).exists():
        raise Conflict(
            f"the files of {owner.slug}/{name} cannot be replaced while a training run uses them",
            code="in_use",
            hint="stop the run or wait for its end, or use another name",
        )
    model, _ = Model.objects.update_or_create(owner=owner, name=name, defaults=values)
    model.variants.all().delete()
    model.files.all().delete()
    return model


def _check_urls(variants: Sequence[EndpointVariant]) -> None:
    for index, variant in enumerate(variants):
        try:
            split(variant.base_url)
        except OutboundRefused as error:
            field = f"variants.{index}.base_url"
            raise Invalid(error.message, code=error.code, hint=error.hint, fields={field: error.message}) from error


def _check_headers(variants: Sequence[EndpointVariant]) -> None:
    """What cannot be sent would be quoted in the message of a failed call."""
    for index, variant in enumerate(variants):
        headers = {f"headers.{name}": text for name, text in variant.headers.items()}
        for field, text in {"api_key": variant.api_key or "", **headers}.items():
            if not (text.isascii() and text.isprintable() and text == text.strip()):
                message = f"{field} contains characters that are not allowed in a header"
                hint = "copy it again without the line break"
                raise Invalid(message, code="bad_header", hint=hint, fields={f"variants.{index}.{field}": message})


def _with_kept_key(existing: Model | None, variant: EndpointVariant) -> TargetVariant:
    """The variant as it will be called. A key that was not sent is kept, but only for the URL that it was given for."""
    key = variant.api_key
    if key is None and existing is not None:
        known = existing.variants.filter(base_url=variant.base_url, remote_model=variant.model).first()
        key = decrypt(known.encrypted_key) if known and known.encrypted_key else ""
    return TargetVariant(**variant.model_dump(exclude={"api_key"}), api_key=key or "")


def _test_before_saving(variants: Sequence[TargetVariant]) -> None:
    results = probe_all(variants, outbound_policy())
    failures = {f"variants.{index}": result.message for index, result in enumerate(results) if not result.ok}
    if failures:
        first = next(iter(failures.values()))
        raise Invalid(
            f"{len(failures)} of {len(results)} endpoints failed: {first}",
            code="endpoint_test_failed",
            hint="correct the settings, or save without a test (`--no-test`)",
            fields=failures,
        )


def _row(model: Model, position: int, variant: TargetVariant) -> Variant:
    return Variant(
        model=model,
        position=position,
        kind=variant.kind.value,
        base_url=variant.base_url,
        remote_model=variant.model,
        encrypted_key=encrypt(variant.api_key) if variant.api_key else "",
        encrypted_headers=encrypt(json.dumps(variant.headers)) if variant.headers else "",
        timeout_s=variant.timeout_s,
        max_retries=variant.max_retries,
    )


def _same_files(owner: Owner, name: str, engine: str, files: Mapping[str, str]) -> Model | None:
    """The model of that name when it is this very directory already."""
    known = Model.objects.filter(owner=owner, name=name, engine=engine, base=None, trainable=True).first()
    same = known is not None and dict(known.files.values_list("path", "blob_id")) == dict(files)
    return known if same else None


def _seen_by(model: Model, visibility: Visibility | None) -> Model:
    if visibility is not None and model.visibility != visibility.value:
        model.visibility = visibility.value
        model.save(update_fields=["visibility", "updated_at"])
    return model


def _checked_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\x00" in path or len(path) > 255:
        raise Invalid("a file's path must be relative and stay inside the directory", fields={"files": path[:300]})
    return str(PurePosixPath(path))


def _blob(sha256: str, owner: Owner, user: User | None) -> Blob:
    known = Blob.objects.filter(pk=sha256).first() if user is None else None
    return known or confirm_blob(sha256, holder=owner.pk)
