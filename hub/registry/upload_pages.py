"""The page for uploading an environment, as a folder's archive or as built packages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from envhub.protocol.registry.packages import LONGEST_CHANGES
from envhub.protocol.visibility import Visibility

from hub.accounts.chosen_owner import named_owner
from hub.accounts.models import Role, User
from hub.accounts.queries import get_owner, member_owners
from hub.core.errors import HubError
from hub.core.pages import fragment_of, page, show
from hub.registry.services import upload_environment
from hub.registry.services.pushes import MB, Completed
from hub.registry.services.uploads import Uploaded
from hub.runs.models import Run
from hub.storage.form_room import with_room

MOST_FILES = 2


@page
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def environment_new(request: HttpRequest) -> HttpResponseBase:
    """Upload an environment, then go to its version, or to the run that makes one from it."""
    user = cast("User", request.user)
    context: dict[str, Any] = {
        "section": "environments",
        "owners": member_owners(user, Role.MEMBER)[:100],
        "owner": named_owner(request),
        "visibility": request.POST.get("visibility", ""),
        "message": request.POST.get("message", ""),
        "longest_message": LONGEST_CHANGES,
        "address": with_room(reverse("environment-new"), 2 * MOST_FILES * settings.HUB.max_push_mb * MB),
        "most_mb": settings.HUB.max_push_mb,
        "hub_url": str(settings.HUB.base_url).rstrip("/"),
    }
    if request.method != "POST":
        return show(request, "registry/environment_new.html", context)
    try:
        return redirect(_address(request, _upload(request, user)))
    except HubError as error:
        status = 422 if fragment_of(request) else error.status
        return show(request, "registry/environment_new.html", context | {"error": error}, status=status)


def _upload(request: HttpRequest, user: User) -> Completed | Run:
    owner = get_owner(user, request.POST.get("owner") or user.username)
    asked = request.POST.get("visibility", "")
    visibility = Visibility(asked) if asked in set(Visibility) else None
    message = request.POST.get("message", "").replace("\r\n", "\n")
    with _on_disk(request.FILES.getlist("files")) as files:
        return upload_environment(owner=owner, user=user, files=files, visibility=visibility, message=message)


@contextmanager
def _on_disk(given: list[UploadedFile[Any]]) -> Iterator[list[Uploaded]]:
    """Provide the files on disk, because packages are read from paths. Large files are on disk already."""
    with ExitStack() as stack:
        found = []
        for file in given[: MOST_FILES + 1]:
            known = getattr(file, "temporary_file_path", None)
            if known is None:
                path = Path(stack.enter_context(TemporaryDirectory(prefix="hub-form-"))) / "file"
                path.write_bytes(file.read())
            found.append(Uploaded(path if known is None else Path(known()), file.name or ""))
        yield found


def _address(request: HttpRequest, made: Completed | Run) -> str:
    if isinstance(made, Run):
        return reverse("run", args=[made.pk]) + "?onward=1"
    environment, version = made.version.environment, made.version
    if not made.created:
        messages.info(request, f"This content is identical to version {version.version}; nothing has changed.")
    return reverse("version", args=[environment.owner.slug, environment.name, version.version])
