"""Images of sandboxes: archives added by hand, digests that were pinned at first use, and which registries are open."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import transaction
from envhub.protocol.base import BlobRef
from envhub.protocol.sandboxes.images import (
    BASE,
    ImageRequest,
    ImageSource,
    Layout,
    canonical,
    may_be_stood_in_for,
    parse,
    reference_in,
)

from hub.accounts.models import User
from hub.core.errors import Invalid, NotFound
from hub.data.holdings import announce_image
from hub.data.models import Image
from hub.data.queries import image_named
from hub.storage.queries import presign_get
from hub.storage.services import confirm_blob

BLOB_SECONDS = 6 * 3600  # archives are large


class ImageLacking(NotFound):
    """Nobody has added the image, and no registry that has it is open."""

    def __init__(self, name: str, registry: str = "") -> None:
        operator = f"; or the operator sets HUB_IMAGE_REGISTRIES='[\"{registry}\"]'" if registry else ""
        super().__init__(
            f"the hub has no image {name}",
            code="image_lacking",
            hint=f"hub image add {name} TAR   (administrators{operator})",
        )


def check_image_name(name: str) -> str:
    """The one spelling of a name. Raises Invalid."""
    try:
        return canonical(name)
    except ValueError as error:
        raise Invalid(str(error), fields={"name": name[:200]}) from error


def add_image(*, request: ImageRequest, by: User, holder: UUID | None = None) -> Image:
    """Keep an archive that `by` (or `holder`) has uploaded under a name, in the place of what it meant before. Raises
    Invalid."""
    name = check_image_name(request.name)
    if "@" in name:
        raise Invalid("an image is added under a name, not a digest", fields={"name": name})
    with transaction.atomic():
        blob = confirm_blob(request.sha256, request.size, holder=holder or by.owner.pk)
        Image.objects.filter(name=name).delete()
        digest = f"sha256:{blob.sha256}"
        row = Image.objects.create(name=name, digest=digest, layout=request.layout, blob=blob, added_by=by)
        announce_image(row)
        return row


def remove_image(*, name: str) -> None:
    """Forget an image, or the digest that a name is pinned to. Raises NotFound, Invalid."""
    name = check_image_name(name)
    if not Image.objects.filter(name=name).delete()[0]:
        raise ImageLacking(name)


def source_of(name: str) -> ImageSource:
    """Where a worker gets the image. Raises ImageLacking."""
    try:
        name = canonical(name)
    except ValueError as error:
        hint = "write it as a container engine takes it: python:3.11-slim"
        raise NotFound(str(error), code="image_lacking", hint=hint) from error
    row = image_named(name)
    digest = row.digest if row is not None else ""
    if row is not None and row.blob is not None:
        url = presign_get(row.blob.sha256, filename="image.tar", seconds=BLOB_SECONDS)
        blob = BlobRef(sha256=row.blob.sha256, size=row.blob.size, url=url)
        return ImageSource(name=name, digest=digest, layout=layout_of(row), blob=blob)
    if name == BASE:
        return ImageSource(name=name, stand_in=True)
    reference = reference_in(settings.HUB.image_registries, name)
    if reference and digest:
        reference = f"{without_tag(reference)}@{digest}"
    stand_in = settings.HUB.image_stand_ins and not digest and may_be_stood_in_for(name)
    if not (reference or digest or stand_in):
        raise ImageLacking(name, parse(name).registry)
    return ImageSource(name=name, digest=digest, reference=reference, stand_in=stand_in)


def pin_image(*, name: str, digest: str) -> Image:
    """What a worker has pulled under a name; the first report wins. Raises Invalid for what no registry was open to."""
    name = check_image_name(name)
    if "@" in name or not reference_in(settings.HUB.image_registries, name):
        raise Invalid("only names that HUB_IMAGE_REGISTRIES lets through are pinned", fields={"name": name})
    return Image.objects.get_or_create(name=name, defaults={"digest": digest})[0]


def layout_of(row: Image) -> Layout | None:
    """Its layout as the protocol has it."""
    known: dict[str, Layout] = {"oci": "oci", "docker": "docker", "rootfs": "rootfs"}
    return known.get(row.layout)


def without_tag(reference: str) -> str:
    """A registry's reference by which nothing but a digest is missing."""
    place, slash, last = reference.rpartition("/")
    return f"{place}{slash}{last.partition('@')[0].partition(':')[0]}"
