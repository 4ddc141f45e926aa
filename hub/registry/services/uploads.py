"""Environments uploaded in the browser: built packages become a version at once; a worker packages a folder's archive.

Both use the services of `hub push`, so that limits, hashes and conflicts are the same.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from django.conf import settings
from django.db import transaction
from envhub.errors import ArchiveError, PackageError
from envhub.packaging.archives.reading import safe_members
from envhub.packaging.metadata import PackageMetadata, direct_references, read_wheel_metadata
from envhub.packaging.source_archives import METADATA, drop_comment, read_source, sdist_of_wheel
from envhub.protocol.base import BlobRef
from envhub.protocol.placing.abilities import PACK_SOURCE
from envhub.protocol.registry.builds import SourcePacked, SourcePayload
from envhub.protocol.registry.packages import LONGEST_CHANGES, PushFile, PushRequest
from envhub.protocol.runs import RunKind
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.core.database_json import storable_text
from hub.core.errors import Conflict, Invalid, NotFound, TooLarge
from hub.core.http import validate
from hub.registry.archived import require_not_archived
from hub.registry.models import Push, SourceUpload, Version
from hub.registry.services.moves import environment_of_package
from hub.registry.services.pushes import (
    MB,
    Completed,
    apply_to_published,
    begin_push,
    complete_push,
    publish,
    published,
    read_push,
)
from hub.runs.models import Run
from hub.runs.services import create_run
from hub.storage.queries import presign_get
from hub.storage.services import store_file

SOURCES = (".zip", ".tar.gz", ".tgz")
LONGEST_NAME = 200
WRITTEN = "# Written by the hub: the wheel was uploaded without a source distribution."


@dataclass(frozen=True)
class Uploaded:
    """An uploaded file, with the name that its sender gave it. The file may be changed."""

    path: Path
    filename: str


@dataclass(frozen=True)
class PushDetails:
    """What a sender states beside the files."""

    visibility: Visibility | None
    message: str = ""


def upload_environment(
    *, owner: Owner, user: User, files: Sequence[Uploaded], visibility: Visibility | None = None, message: str = ""
) -> Completed | Run:
    """Publish a wheel, with or without its sdist, or queue the run that makes a version from a folder's archive.

    Without a visibility an environment stays as it is, and a new one is private. The message says what is new in the
    version; without one its changelog does. Raises NotAllowed, Invalid, TooLarge,
    Conflict, QuotaExceeded.
    """
    require_role(user, owner, Role.MEMBER)
    if len(message) > LONGEST_CHANGES:
        raise Invalid(f"what is new has at most {LONGEST_CHANGES} characters", fields={"message": "too long"})
    details = PushDetails(visibility, message)
    for file in files:
        _check_size(file)
    wheels = [file for file in files if file.filename.endswith(".whl")]
    others = [file for file in files if not file.filename.endswith(".whl")]
    try:
        if len(wheels) == 1 and len(others) <= 1:
            return _push_packages(owner, user, wheels[0], others[0] if others else None, details)
        if not wheels and len(others) == 1:
            return _queue_source(owner, user, others[0], details)
    except PackageError as error:
        kind = TooLarge if error.code == "too_large" else Invalid
        raise kind(error.message, code=error.code, hint=error.hint) from error
    raise Invalid(
        "choose one archive of an environment's folder, or one wheel with its .tar.gz" if files else "choose a file",
        code="which_files",
        hint="use a .zip or .tar.gz of the folder that contains pyproject.toml",
    )


def source_upload_of(run: Run) -> SourceUpload | None:
    """Return the upload that a build run packages; None if the run builds a version."""
    return SourceUpload.objects.select_related("archive", "version").filter(run=run).first()


def source_payload(upload: SourceUpload) -> SourcePayload:
    """Return the payload for the worker. Raises Conflict."""
    if upload.archive is None:
        raise Conflict("the uploaded archive has been deleted", code="upload_gone", hint="upload it again")
    blob = upload.archive
    url = presign_get(blob.pk, filename="source")
    return SourcePayload(
        source=BlobRef(sha256=blob.pk, size=blob.size, url=url),
        filename=upload.filename,
        folder=upload.folder,
        name=upload.name,
        requires_python=upload.requires_python,
    )


def publish_source(*, run: Run, packed: SourcePacked) -> Completed:
    """Push what a worker made of an upload, on behalf of its uploader. Repeating it returns the same version.

    Raises as a push does; these errors are about the package and end the run.
    """
    upload = source_upload_of(run)
    if upload is None:
        raise NotFound("this run does not build a package")
    if upload.version is not None:
        return Completed(upload.version, created=False, build=None)
    details = PushDetails(Visibility(upload.visibility) if upload.visibility else None, upload.message)
    push = _begun(run.owner, run.created_by, upload.name, packed, details)
    pushed = read_push(push=push) if push.version is None else None
    with transaction.atomic():  # if the hub is killed, either no version exists or the next attempt finds it
        done = complete_push(push=push) if pushed is None else publish(push=push, pushed=pushed)
        Run.objects.filter(pk=run.pk).update(subject_url=_page_of(done.version))
        SourceUpload.objects.filter(pk=upload.pk).update(version=done.version)
    return done


def follow_upload(run: Run) -> None:
    """Release the archive of an upload whose run has ended."""
    SourceUpload.objects.filter(run=run).update(archive=None)


def _queue_source(owner: Owner, user: User, file: Uploaded, details: PushDetails) -> Run:
    if not file.filename.endswith(SOURCES):
        message = f"{file.filename[:LONGEST_NAME]} is not an archive that the hub can read"
        raise Invalid(message, code="unknown_archive", hint=f"pack the folder as {' or '.join(SOURCES[:2])}")
    drop_comment(file.path)
    try:
        found = read_source(file.path)
    except ArchiveError as error:
        message = f"{file.filename[:LONGEST_NAME]} cannot be read: {error.message}"
        raise Invalid(message, code=error.code, hint=error.hint or "pack the folder again") from error
    if (environment := environment_of_package(owner, found.name)) is not None:
        require_not_archived(environment)
    with transaction.atomic():
        archive = store_file(file.path, holder=owner.pk)
        subject = f"{owner.slug}/{found.name} from {file.filename[:LONGEST_NAME]}"
        run = create_run(
            kind=RunKind.BUILD,
            owner=owner,
            created_by=user,
            subject=subject,
            subject_url="",
            ability=PACK_SOURCE,
        )
        SourceUpload.objects.create(
            run=run,
            archive=archive,
            filename=file.filename[:LONGEST_NAME],
            folder=found.folder[:255],
            name=found.name,
            requires_python=found.requires_python[:255],
            visibility=details.visibility.value if details.visibility else "",
            message=storable_text(details.message),
        )
    return run


def _push_packages(
    owner: Owner, user: User, wheel: Uploaded, sdist: Uploaded | None, details: PushDetails
) -> Completed:
    metadata = read_wheel_metadata(wheel.path, wheel.filename)
    if sdist is None and (same := _version_of(owner, wheel, metadata, details)) is not None:
        return Completed(same, created=False, build=None)
    with tempfile.TemporaryDirectory(prefix="hub-upload-") as folder:
        if sdist is None:
            root = "-".join(wheel.filename.split("-")[:2])
            sdist = Uploaded(Path(folder) / f"{root}.tar.gz", f"{root}.tar.gz")
            sdist_of_wheel(wheel.path, _beside(wheel.path, metadata), sdist.path)
        packed = SourcePacked(version=metadata.version, wheel=_stored(wheel, owner), sdist=_stored(sdist, owner))
    return complete_push(push=_begun(owner, user, metadata.name, packed, details))


def _version_of(owner: Owner, wheel: Uploaded, metadata: PackageMetadata, details: PushDetails) -> Version | None:
    """The version that was made of this very wheel, perhaps with an sdist of its own: it is not uploaded again."""
    same = published(owner, metadata.name, metadata.version)
    if same is None or same.wheel_filename != wheel.filename or same.wheel_id != _sha256(wheel.path):
        return None
    require_not_archived(same.environment)
    apply_to_published(same, visibility=details.visibility, message=details.message)
    return same


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _page_of(version: Version) -> str:
    environment = version.environment
    return f"/environments/{environment.owner.slug}/{environment.name}/versions/{version.version}"


def _begun(owner: Owner, user: User, name: str, packed: SourcePacked, details: PushDetails) -> Push:
    visibility = details.visibility
    if visibility is None and environment_of_package(owner, name) is None:
        visibility = Visibility.PRIVATE
    fields = {**packed.model_dump(), "name": name, "visibility": visibility, "message": details.message or None}
    return begin_push(owner=owner, user=user, request=validate(PushRequest, fields)).push


def _stored(file: Uploaded, owner: Owner) -> PushFile:
    blob = store_file(file.path, holder=owner.pk)
    return validate(PushFile, {"filename": file.filename, "sha256": blob.pk, "size": blob.size})


def _beside(wheel: Path, metadata: PackageMetadata) -> dict[str, bytes]:
    """Return what an sdist of the wheel has beside the wheel's files, so that a build of it gives the same package."""
    tops = {member.path.partition("/")[0] for member in safe_members(wheel)}
    modules = sorted(top for top in tops if not top.endswith(".dist-info"))
    readme = "README.rst" if metadata.readme_type == "text/x-rst" else "README.md"
    has_readme = bool(metadata.readme) and readme not in tops
    project: dict[str, Any] = {"name": metadata.name, "version": metadata.version}
    project |= {"description": metadata.summary} if metadata.summary else {}
    project |= {"readme": readme} if has_readme else {}
    project |= {"keywords": list(metadata.keywords)} if metadata.keywords else {}
    project |= {"dependencies": list(metadata.dependencies)}
    project |= {"requires-python": metadata.requires_python} if metadata.requires_python else {}
    hatch: dict[str, Any] = {"build": {"targets": {"wheel": {"only-include": modules}}}}
    hatch |= {"metadata": {"allow-direct-references": True}} if direct_references(metadata.dependencies) else {}
    system = {"requires": ["hatchling"], "build-backend": "hatchling.build"}
    document = tomlkit.dumps({"project": project, "build-system": system, "tool": {"hatch": hatch}})
    files = {METADATA: metadata.raw, "pyproject.toml": f"{WRITTEN}\n{document}".encode()}
    return files | ({readme: f"{metadata.readme}\n".encode()} if has_readme else {})


def _check_size(file: Uploaded) -> None:
    most = settings.HUB.max_push_mb
    if (size := file.path.stat().st_size) > most * MB:
        raise TooLarge(
            f"{file.filename[:LONGEST_NAME]} has {size / MB:.0f} MB, more than the allowed {most}",
            hint="remove data from the package: `hub data add` stores data sets for load_dataset inside boxes",
        )
