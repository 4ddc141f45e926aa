"""API of versions: list, show, delete, yank, rebuild, files, lock, downloads."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from drf_spectacular.utils import OpenApiParameter, extend_schema
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.needs import CheckSettings
from envhub.protocol.registry.packages import FileContent, FileEntry, VersionView, YankRequest
from pydantic import RootModel
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import Role
from hub.accounts.permissions import check_read
from hub.accounts.queries import has_role
from hub.core.errors import NotFound
from hub.core.http import answer, answer_page, parse
from hub.core.pagination import newest_first, read_limit
from hub.core.requests.parameters import PAGE, query
from hub.registry import queries, services
from hub.registry.api.environments import reach
from hub.registry.files import list_files, read_file
from hub.registry.models import Version
from hub.registry.wire import lock_for_reader, version_view
from hub.storage.services import presign_get


class FileEntryPage(Page[FileEntry]):
    """One page of a version's files."""


class VersionFiles(RootModel[FileEntryPage | FileContent]):
    """The list of files, or the content of one file."""


def _visible(request: Request, owner: str, name: str, version: str) -> Version:
    check_read(request)
    return queries.get_version_of(queries.get_environment(request.user, owner, name), version)


@extend_schema(parameters=query(*PAGE), responses=Page[VersionView])
@api_view(["GET"])
def version_list(request: Request, owner: str, name: str) -> HttpResponse:
    """List the versions of an environment, latest push first."""
    check_read(request)
    environment = queries.get_environment(request.user, owner, name)
    rows = queries.environment_versions(environment)
    return answer_page(*newest_first(rows, request), lambda row: version_view(row, full=False))


@extend_schema(methods=["GET"], responses=VersionView)
@extend_schema(methods=["DELETE"], request=None, responses={204: None})
@api_view(["GET", "DELETE"])
def version_detail(request: Request, owner: str, name: str, version: str) -> HttpResponse:
    """Return or delete a version ("latest" is allowed).

    A version can be deleted only while no evaluation refers to it.
    """
    if request.method == "GET":
        found = _visible(request, owner, name, version)
        inside = has_role(request.user, found.environment.owner, Role.READER)
        return answer(version_view(found, inside=inside))
    _, environment = reach(request, owner, name, Scope.WRITE, Role.MAINTAINER)
    services.delete_version(version=queries.get_version_of(environment, version))
    return HttpResponse(status=204)


@extend_schema(request=YankRequest, responses=VersionView)
@api_view(["PATCH"])
def version_yank(request: Request, owner: str, name: str, version: str) -> HttpResponse:
    """Hide a version from resolution, or show it again."""
    _, environment = reach(request, owner, name, Scope.WRITE, Role.MEMBER)
    body = parse(request, YankRequest)
    found = queries.get_version_of(environment, version)
    return answer(version_view(services.yank_version(version=found, yanked=body.yanked, reason=body.reason)))


@extend_schema(request=None, responses={202: VersionView})
@api_view(["POST"])
def version_rebuild(request: Request, owner: str, name: str, version: str) -> HttpResponse:
    """Build a version again, after its data or a dependency has become available."""
    user, environment = reach(request, owner, name, Scope.WRITE, Role.MEMBER)
    found = queries.get_version_of(environment, version)
    services.rebuild_version(version=found, user=user)
    return answer(version_view(found), status=202)


@extend_schema(
    parameters=[OpenApiParameter("reset", bool, description="forget what was given before")],
    request=CheckSettings,
    responses={202: VersionView},
)
@api_view(["POST"])
def version_check(request: Request, owner: str, name: str, version: str) -> HttpResponse:
    """Check a version again. The body adds to the stored check settings. The version stays usable meanwhile."""
    user, environment = reach(request, owner, name, Scope.WRITE, Role.MEMBER)
    given = parse(request, CheckSettings)
    found = queries.get_version_of(environment, version)
    reset = request.query_params.get("reset", "").lower() in ("1", "true")
    return answer(version_view(services.check_version(version=found, user=user, given=given, reset=reset)), status=202)


@extend_schema(
    parameters=[
        OpenApiParameter("path", str, description="answer the text of this file instead"),
        OpenApiParameter("after", str, description="the cursor: the last path that the page before had"),
        *query("limit"),
    ],
    responses=VersionFiles,
)
@api_view(["GET"])
def version_files(request: Request, owner: str, name: str, version: str) -> HttpResponse:
    """List the files of a version's sdist by path, or return one. With `path`, returns the text of that file."""
    found = _visible(request, owner, name, version)
    path = request.query_params.get("path")
    if path is not None:
        return answer(read_file(found, path))
    after = request.query_params.get("after", "")
    entries, more = list_files(found, after=after, limit=read_limit(request, default=200))
    query = {**request.query_params.dict(), "after": entries[-1].path} if more else {}
    following = request.build_absolute_uri(f"{request.path}?{urlencode(query)}") if more else None
    return answer(Page[FileEntry](items=tuple(entries), next=following))


@extend_schema(responses=EnvironmentLock)
@api_view(["GET"])
def version_lock(request: Request, owner: str, name: str, version: str) -> HttpResponse:
    """Return the lock of a version, with a temporary URL for each wheel. `hub install` installs it."""
    return answer(lock_for_reader(_visible(request, owner, name, version), request.user))


@extend_schema(responses={302: None})
@api_view(["GET"])
def version_download(request: Request, owner: str, name: str, version: str, kind: str) -> HttpResponse:
    """Redirect to a version's wheel or sdist. The redirect works for a few minutes."""
    found = _visible(request, owner, name, version)
    files = {"wheel": (found.wheel_id, found.wheel_filename), "sdist": (found.sdist_id, found.sdist_filename)}
    if kind not in files:
        raise NotFound("a version has a wheel and an sdist")
    sha256, filename = files[kind]
    return HttpResponseRedirect(presign_get(sha256, filename=filename, seconds=600))
