"""Images that workers build of folders with a Dockerfile: queued by administrators, kept as those added by hand."""

from __future__ import annotations

from django.db import transaction
from envhub.protocol.base import BlobRef
from envhub.protocol.runs import RunKind, RunState
from envhub.protocol.sandboxes.images import ImageBuildPayload, ImageBuildRequest, ImageBuilt, ImageRequest

from hub.accounts.models import User
from hub.core.errors import Conflict, Invalid, NotFound
from hub.data.images import BLOB_SECONDS, add_image, check_image_name
from hub.data.models import Image, ImageBuild
from hub.runs.models import Run
from hub.runs.services import create_run
from hub.storage.queries import presign_get
from hub.storage.services import confirm_blob

PAGE = "/data"


def queue_image_build(*, request: ImageBuildRequest, by: User) -> ImageBuild:
    """Queue the build of a folder that `by` has uploaded. Raises Invalid, Conflict (`too_many_queued`)."""
    name = check_image_name(request.name)
    if "@" in name:
        raise Invalid("an image is built under a name, not a digest", fields={"name": name})
    with transaction.atomic():
        blob = confirm_blob(request.sha256, request.size, holder=by.owner.pk)
        run = create_run(kind=RunKind.IMAGE, owner=by.owner, created_by=by, subject=name, subject_url=PAGE)
        return ImageBuild.objects.create(
            run=run, name=name, context=blob, dockerfile=request.dockerfile, arguments=request.arguments
        )


def image_build_payload(run: Run) -> ImageBuildPayload:
    """What the worker of an image run is given. Raises Conflict."""
    row = ImageBuild.objects.select_related("context").filter(run=run).first()
    if row is None:
        raise Conflict("nothing is known of what this run builds", code="image_build_gone")
    url = presign_get(row.context.sha256, filename="context.tar.gz", seconds=BLOB_SECONDS)
    context = BlobRef(sha256=row.context.sha256, size=row.context.size, url=url)
    return ImageBuildPayload(name=row.name, context=context, dockerfile=row.dockerfile, arguments=row.arguments)


def keep_built_image(*, run: Run, built: ImageBuilt) -> Image:
    """From now on the name means what the run has built. Raises NotFound, Invalid."""
    row = ImageBuild.objects.filter(run=run).first()
    if row is None or RunState(run.state).is_final:
        raise NotFound("this run builds no image")
    request = ImageRequest(name=row.name, layout="docker", sha256=built.sha256, size=built.size)
    return add_image(request=request, by=run.created_by)
