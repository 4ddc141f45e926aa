"""Views of the package index. Plain Django: an install makes three requests, so each must be cheap."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from uuid import UUID

from django.db.models import Count, Max, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponsePermanentRedirect
from packaging.utils import canonicalize_name

from hub.core.errors import HubError, NotAuthenticated, NotFound
from hub.registry.index.answers import answer_file, answer_page, index_view
from hub.registry.index.callers import Caller, caller_of
from hub.registry.index.negotiation import Form
from hub.registry.index.rendering import list_html, list_json, project_files, project_html, project_json
from hub.registry.models import Environment, Version

METADATA_SUFFIX = ".metadata"
PAGES_KEPT = 64  # in each web process; a page is a few hundred bytes a file


def slash(request: HttpRequest, owner: str, project: str = "") -> HttpResponse:
    """Index pages end in a slash."""
    name = f"{canonicalize_name(project)}/" if project else ""
    return HttpResponsePermanentRedirect(f"/index/{owner}/simple/{name}")


@index_view
def project_list(request: HttpRequest, owner: str) -> HttpResponseBase:
    """The projects of an owner that the caller may see."""
    caller = caller_of(request)
    rows = caller.environments.filter(owner__slug=owner)
    found = rows.aggregate(count=Count("pk"), changed=Max("updated_at"))
    if not found["count"]:
        raise _missing(caller, rows, f"there are no packages of {owner}")

    def body(form: Form) -> str:
        names = list(rows.order_by("name").values_list("name", flat=True))
        return list_json(names) if form is Form.JSON else list_html(owner, names)

    subject = f"{owner}-{found['count']}"
    return answer_page(request, subject, found["changed"], body, public=caller.anonymous)


@index_view
def project_detail(request: HttpRequest, owner: str, project: str) -> HttpResponseBase:
    """The files of one project."""
    name = canonicalize_name(project)
    if name != project:
        return HttpResponsePermanentRedirect(f"/index/{owner}/simple/{name}/")
    caller = caller_of(request)
    rows = caller.environments.filter(owner__slug=owner)
    environment = rows.filter(name=name).only("id", "name", "updated_at").first()
    if environment is None:
        raise _missing(caller, rows, f"{owner} has no package {name}")

    changed = environment.updated_at

    def body(form: Form) -> str:
        return _project_page(environment.pk, changed, name, form)

    return answer_page(request, environment.pk.hex, changed, body, public=caller.anonymous)


@lru_cache(maxsize=PAGES_KEPT)
def _project_page(environment_id: UUID, changed: datetime, name: str, form: Form) -> str:
    """Every change of a project's files changes the project's `updated_at`, so a page is made once."""
    files = project_files(environment_id)
    return project_json(name, files) if form is Form.JSON else project_html(name, files)


@index_view
def file(request: HttpRequest, owner: str, sha256: str, filename: str) -> HttpResponseBase:
    """A wheel, an sdist, or a wheel's METADATA. The address never changes; the bytes come from storage."""
    caller = caller_of(request)
    rows = caller.environments.filter(owner__slug=owner)
    wanted = filename.removesuffix(METADATA_SUFFIX)
    same = Q(wheel=sha256, wheel_filename=wanted)
    if wanted == filename:
        same |= Q(sdist=sha256, sdist_filename=wanted)
    version = Version.objects.filter(same, environment__in=rows).only("metadata_id").first()
    if version is None:
        raise _missing(caller, rows, f"{owner} has no file {filename}")
    blob = sha256 if wanted == filename else version.metadata_id
    return answer_file(request, blob, filename)


def _missing(caller: Caller, visible: QuerySet[Environment], message: str) -> HubError:
    """Absent and private look the same. Whoever sees nothing of an owner at all is asked for credentials; an owner with
    public packages answers 404, because a resolver that asks it for every dependency must be able to go on."""
    if caller.anonymous and not visible.exists():
        return NotAuthenticated("sign in: any user name, and an API token as the password")
    return NotFound(message)
