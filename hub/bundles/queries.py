"""Reads of what a bundle of a version holds."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet
from envhub.protocol.models.catalog import ModelSource
from envhub.protocol.registry.bundles import BundleBlob
from envhub.protocol.registry.needs import NeedKind

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.catalog.queries import get_model, visible_models
from hub.catalog.wire import fingerprint
from hub.core.errors import Invalid
from hub.data.holdings import KINDS
from hub.data.models import Image, OutsideFile, Snapshot
from hub.data.queries import file_at, find, find_image
from hub.registry.models import SourceBuild, StoredWheel, Version, VersionUse
from hub.storage.models import Blob

_REPOSITORIES = {need.value: kind for kind, need in KINDS.items()}


def uses_of(version: Version) -> QuerySet[VersionUse]:
    """What its checks have loaded, in one order."""
    return VersionUse.objects.filter(version=version).order_by("kind", "name", "revision")


def snapshots_used(uses: Iterable[VersionUse]) -> list[Snapshot]:
    """Revisions that are still kept."""
    found = (
        find(_REPOSITORIES[use.kind], use.name, use.revision or "main") for use in uses if use.kind in _REPOSITORIES
    )
    return list({row.pk: row for row in found if row is not None}.values())


def files_used(uses: Iterable[VersionUse]) -> list[OutsideFile]:
    """Files of the outside that are still kept."""
    found = (file_at(use.name) for use in uses if use.kind == NeedKind.FILE.value)
    return [row for row in found if row is not None]


def image_names(uses: Iterable[VersionUse]) -> list[str]:
    """Canonical names."""
    return [use.name for use in uses if use.kind == NeedKind.SANDBOX.value]


def image_kept(name: str, version: Version, user: User) -> Image | None:
    """An image as a run of the version by `user` would have it, if the hub has its bytes."""
    owner_id = version.environment.owner_id
    row = find_image(name, owner_id=user.only_owner or user.owner.pk, user=user, authors={owner_id})
    return row if row is not None and row.blob_id is not None else None


def shared_wheels(wheels: Iterable[str]) -> tuple[str, ...]:
    """Those of these wheels, by SHA-256, that every build may take: no owner's, and no restricted worker's."""
    rows = StoredWheel.objects.filter(blob_id__in=list(wheels), shared=True).order_by("blob_id")
    return tuple(rows.values_list("blob_id", flat=True).distinct())


def sources_of(wheels: Iterable[str]) -> QuerySet[SourceBuild]:
    """Which builds of sources made these wheels, by SHA-256."""
    rows = SourceBuild.objects.filter(wheel__blob_id__in=list(wheels)).select_related("wheel")
    return rows.order_by("key")


def models_wanted(user: User, references: Iterable[str], version: Version, *, trained: bool) -> list[Model]:
    """Local models that the user may see: those named, and the final adapters that `version` was trained to. Raises
    NotFound, Invalid (an endpoint)."""
    named = [get_model(user, reference) for reference in references]
    for model in named:
        if model.source != ModelSource.LOCAL.value:
            raise Invalid(
                f"{model.owner.slug}/{model.name} is an endpoint without files",
                code="no_local_model",
                hint="register endpoints on the other hub with `hub model add`",
            )
    final = visible_models(user).filter(adapter__final=True, adapter__training__versions__version=version)
    found = [*named, *(final.distinct() if trained else ())]
    return list({model.pk: model for model in found}.values())


def fingerprint_of(model: Model) -> str:
    """Of its files: the same at every hub."""
    return fingerprint({file.path: file.blob_id for file in model.files.all()})


def model_like(user: User, reference: str, wanted: str) -> Model | None:
    """A local model that the user may see with files of this fingerprint, by preference the one of this name."""
    rows = visible_models(user).filter(source=ModelSource.LOCAL.value, base=None).prefetch_related("files")
    alike = [model for model in rows if fingerprint_of(model) == wanted]
    return next((one for one in alike if f"{one.owner.slug}/{one.name}" == reference), alike[0] if alike else None)


def blobs_of(sha256s: Iterable[str]) -> dict[str, BundleBlob]:
    """Those that the hub has, in the order asked for."""
    wanted = list(dict.fromkeys(sha256s))
    sizes = dict(Blob.objects.filter(pk__in=wanted).values_list("pk", "size"))
    return {sha256: BundleBlob(sha256=sha256, size=sizes[sha256]) for sha256 in wanted if sha256 in sizes}
