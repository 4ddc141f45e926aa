"""`prime env list|info|status|inspect|pull|install|delete` and `prime fork`, which read and change environments."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.db.models import QuerySet
from django.http import FileResponse, HttpResponse, HttpResponseBase
from envhub.errors import ArchiveError
from envhub.packaging.source_archives import source_of_sdist
from envhub.protocol.accounts.users import Scope
from rest_framework.request import Request

from hub.accounts.models import Role, User
from hub.accounts.permissions import check_read, require_scope
from hub.accounts.queries import member_owners, require_role
from hub.compat.answers import MOST_COUNTED, MOST_ROWS, body, client_view, counted, number, wrapped
from hub.compat.names import PREFIX, EnvironmentId, acting_owner, environment_of, page_url
from hub.core.errors import Invalid, NotFound
from hub.registry import queries, services
from hub.registry.files import read_file
from hub.registry.filters import EnvironmentFilter, Sort, filtered
from hub.registry.models import Environment, Version
from hub.storage.services import local_or_temp_path

_SORTED_BY = {"name": "name", "created_at": "id", "updated_at": "updated_at", "stars": "stars"}
_SHORTEST_HASH = 8
_MOST_VERSIONS = 200


@client_view("GET")
def environment_list(request: Request) -> HttpResponseBase:
    """List visible environments by `owner`, `search`, `tags`, `visibility`, `starred_only` and `mine_only`."""
    check_read(request)
    rows = _asked(request)
    field = _SORTED_BY.get(given := request.query_params.get("sort_by", "created_at"))
    if field is None:
        raise Invalid(f"lists are sorted by {', '.join(_SORTED_BY)}", fields={"sort_by": given[:100]})
    order = "" if request.query_params.get("sort_order") == "asc" else "-"
    offset = number(request, "offset", 0, most=MOST_COUNTED)
    limit = number(request, "limit", 20, most=MOST_ROWS)
    shown = rows.order_by(f"{order}{field}", f"{order}pk")[offset : offset + limit]
    return wrapped([_listed(row) for row in shown], total_count=counted(rows))


def _asked(request: Request) -> QuerySet[Environment]:
    given = request.query_params
    known = {"search": given.get("search", ""), "owner": given.get("owner", "")}
    if _is_set(given.get("starred_only")):
        known["starred"] = "yes"
    tags = [tag for tag in given.getlist("tags") if tag][:8]
    rows = filtered(request.user, EnvironmentFilter.read(known, sort=Sort.NEWEST))
    for tag in tags:
        rows &= filtered(request.user, EnvironmentFilter.read(known | {"tag": tag}, sort=Sort.NEWEST))
    if visibility := given.get("visibility"):
        rows = rows.filter(visibility=visibility.lower())
    if _is_set(given.get("mine_only")):
        rows = rows.filter(owner__in=member_owners(request.user, Role.READER).order_by().values("pk"))
    return rows


def _is_set(given: str | None) -> bool:
    return (given or "").lower() in ("true", "1")


def _listed(row: Environment) -> dict[str, Any]:
    return {
        "id": str(EnvironmentId.of(row)),
        "owner": {"name": row.owner.slug},
        "name": row.name,
        "description": row.description,
        "visibility": row.visibility.upper(),
        "latest_version": row.latest.version if row.latest else None,
        "stars": row.stars,
        "tags": list(row.tags),
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


@client_view("GET", "DELETE")
def environment_version(request: Request, owner: str, name: str, version: str) -> HttpResponseBase:
    """Return what is needed to show, pull and install a version, or delete it (DELETE).

    The version is "latest", its number, or a prefix of its content hash.
    """
    if request.method == "DELETE":
        _, environment = _changed(request, owner, name, Role.MAINTAINER)
        services.delete_version(version=_version_of(environment, version))
        return HttpResponse(status=204)
    return wrapped(_detail(_visible(request, owner, name, version)))


def _visible(request: Request, owner: str, name: str, version: str) -> Version:
    check_read(request)
    return _version_of(queries.get_environment(request.user, owner, name), version)


def _version_of(environment: Environment, given: str) -> Version:
    try:
        return queries.get_version_of(environment, given)
    except NotFound:
        found = None
        if len(given) >= _SHORTEST_HASH:
            rows = queries.environment_versions(environment).filter(content_digest__startswith=given.lower())
            found = rows.order_by("-pk").first()
        if found is None:
            raise
        return queries.version_with_owner(found.pk)


def _changed(request: Request, owner: str, name: str, role: Role) -> tuple[User, Environment]:
    user = require_scope(request, Scope.WRITE)
    environment = queries.get_environment(user, owner, name)
    require_role(user, environment.owner, role)
    return user, environment


def _detail(version: Version) -> dict[str, Any]:
    """Describe a version. For a private wheel it has no URL, because the clients would request it without a token; they
    then build from the source instead."""
    environment = version.environment
    place = f"{environment.owner.slug}/{environment.name}"
    wheel = f"index/{environment.owner.slug}/files/{version.wheel_id}/{version.wheel_filename}"
    return {
        "id": str(EnvironmentId.of(environment)),
        "owner": {"name": environment.owner.slug},
        "name": environment.name,
        "visibility": environment.visibility.upper(),
        "semantic_version": version.version,
        "content_hash": version.content_digest,
        "metadata": {
            "description": environment.description or version.summary,
            "tags": list(environment.tags),
            "license": version.license,
            "dependencies": list(version.dependencies),
            "python_requires": version.requires_python,
        },
        "latest_version": _brief(environment.latest),
        "wheel_url": page_url(wheel) if environment.is_public else None,
        "simple_index_url": None,
        "url_dependencies": [],
        "package_url": page_url(f"{PREFIX}api/v1/environmentshub/{place}/@{version.version}/source"),
    }


def _brief(version: Version | None) -> dict[str, Any] | None:
    if version is None:
        return None
    return {
        "semantic_version": version.version,
        "content_hash": version.content_digest,
        "created_at": version.created_at.isoformat(),
    }


@client_view("GET")
def version_source(request: Request, owner: str, name: str, version: str) -> HttpResponseBase:
    """Return the folder of a version as a tar.gz, with pyproject.toml at its top."""
    found = _visible(request, owner, name, version)
    file = tempfile.NamedTemporaryFile(prefix="hub-source-", suffix=".tar.gz")  # noqa: SIM115  closed by the response
    try:
        with local_or_temp_path(found.sdist_id) as sdist:
            source_of_sdist(sdist, Path(file.name))
    except ArchiveError as error:
        file.close()
        raise NotFound(error.message, hint=error.hint) from error
    return FileResponse(file, as_attachment=True, filename=f"{found.project}-{found.version}.tar.gz")


@client_view("GET")
def version_inspect(request: Request, owner: str, name: str, version: str) -> HttpResponseBase:
    """Return a file of a version's source, or the entries of a folder in it."""
    found = _visible(request, owner, name, version)
    path = request.query_params.get("path", "").strip("/").removeprefix("./")
    if path and path in dict(found.files):
        return wrapped(_file(found, path, number(request, "max_bytes", 100_000, most=500_000)))
    prefix = f"{path}/" if path not in ("", ".") else ""
    entries: dict[str, dict[str, Any]] = {}
    for member, size in sorted(found.files):
        if member.startswith(prefix):
            entry, _, below = member.removeprefix(prefix).partition("/")
            kind = {"path": f"{prefix}{entry}", "is_directory": bool(below), "size": None if below else size}
            entries.setdefault(entry, kind)
    if not entries:
        raise NotFound(f"version {found.version} has no file {path}")
    return wrapped({"kind": "directory", "path": path or "/", "entries": list(entries.values())})


def _file(version: Version, path: str, most: int) -> dict[str, Any]:
    content = read_file(version, path)
    whole = content.text if content.text is not None else "(binary)"
    shown = whole.encode()[:most].decode(errors="ignore")
    return {
        "kind": "file",
        "path": path,
        "content": shown,
        "truncated": content.truncated or len(shown) < len(whole),
        "total_bytes": content.size,
    }


@client_view("GET")
def environment_status(request: Request, owner: str, name: str) -> HttpResponseBase:
    """Return an environment and its latest version."""
    check_read(request)
    found = queries.get_environment(request.user, owner, name)
    return wrapped(_listed(found) | {"latest_version": _brief(found.latest)})


@client_view("GET")
def version_list(request: Request, owner: str, name: str) -> HttpResponseBase:
    """Return the versions, newest first; `size` is the number of files of each."""
    check_read(request)
    rows = queries.environment_versions(queries.get_environment(request.user, owner, name)).order_by("-pk")
    return wrapped(
        [
            {
                "version": row.version,
                "created_at": row.created_at.isoformat(),
                "sha256": row.content_digest,
                "size": 2,  # wheel and source
            }
            for row in rows[:_MOST_VERSIONS]
        ]
    )


@client_view("DELETE")
def environment_delete(request: Request, owner: str, name: str) -> HttpResponseBase:
    """Delete an environment with its versions."""
    _, environment = _changed(request, owner, name, Role.MAINTAINER)
    services.delete_environment(environment=environment)
    return HttpResponse(status=204)


@client_view("DELETE")
def environment_delete_by_id(request: Request, environment: EnvironmentId) -> HttpResponseBase:
    """Delete an environment by its id."""
    user = require_scope(request, Scope.WRITE)
    found = environment_of(user, environment)
    require_role(user, found.owner, Role.MAINTAINER)
    services.delete_environment(environment=found)
    return HttpResponse(status=204)


@client_view("POST")
def environment_fork(request: Request, owner: str, name: str) -> HttpResponseBase:
    """Fork the latest version for the caller, or for a team."""
    user = require_scope(request, Scope.WRITE)
    origin = queries.get_environment(user, owner, name)
    target = acting_owner(user, body(request))
    version = queries.get_version_of(origin, queries.LATEST)
    made = services.fork_environment(user=user, version=version, owner=target)
    slug = f"{made.owner.slug}/{made.name}"
    return wrapped({"slug": slug, "environment_id": str(EnvironmentId.of(made)), "version_id": version.version})
