"""Pages of environments and versions: the list with search, README, versions, build results, files."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.needs import CheckSettings, command_for, flags_for, hint_for
from envhub.protocol.registry.packages import EnvironmentPatch, MoveRequest, VersionState, VersionView, YankRequest
from envhub.protocol.runs import RunState
from pydantic import ValidationError

from hub.accounts.models import Role, User
from hub.accounts.queries import get_owner, has_role, member_owners, require_role, visible_owners
from hub.core.errors import HubError
from hub.core.http import validate
from hub.core.pages import Moved, fragment_of, leave_for, page, show
from hub.core.pagination import newest_first
from hub.registry.building import building_context
from hub.registry.cards import evaluations_seen, listed, starred_by
from hub.registry.description import describe_for_page
from hub.registry.file_tree import file_tree
from hub.registry.files import read_file
from hub.registry.filters import SORT_TITLES, EnvironmentFilter, facets, page_of
from hub.registry.models import Environment, Version
from hub.registry.queries import (
    LATEST,
    dependants_of,
    environment_versions,
    fork_origin,
    forks_of,
    get_environment,
    get_version_of,
)
from hub.registry.services import (
    add_sample,
    archive_environment,
    check_version,
    move_environment,
    patch_environment,
    rebuild_version,
    star_environment,
    yank_version,
)
from hub.registry.tags import split_tags
from hub.registry.wire import version_view

PAGE = 50
MOST_COUNTED = 100
MOST_DEPENDANTS = 8


@page
@require_safe
def environment_list(request: HttpRequest) -> HttpResponseBase:
    """List the visible environments that the address selects, in its order, with facets to narrow the list."""
    asked = EnvironmentFilter.read(request.GET)
    found, following = page_of(request, asked, default=PAGE)
    context = {
        "section": "environments",
        "asked": asked,
        "facets": facets(request.user, asked),
        "sorts": SORT_TITLES.items(),
        "owners": visible_owners(request.user)[:100],
        "environments": listed(request.user, found),
        "next": following,
    }
    return show(request, "registry/environment_list.html", context)


@page
@login_required
@require_POST
def sample_add(request: HttpRequest) -> HttpResponse:
    """Add the sample environment to the user's own, and go to the form that evaluates it."""
    user = cast("User", request.user)
    environment = add_sample(owner=user.owner, user=user).version.environment
    return redirect("evaluate", environment.owner.slug, environment.name)


def environment_context(request: HttpRequest, owner: str, name: str, *, tab: str, version: str = "") -> dict[str, Any]:
    """Return the context of the header and sidebar of an environment's pages.

    Raises NotFound, Moved (redirects).
    """
    environment = get_environment(request.user, owner, name)
    if (environment.owner.slug, environment.name) != (owner, name):
        asked, now = (
            reverse("environment", args=pair) for pair in ((owner, name), (environment.owner.slug, environment.name))
        )
        raise Moved(request.get_full_path().replace(asked, now, 1))
    shown: Version | None = None
    if version:
        shown = get_version_of(environment, version)
    elif environment.latest is not None:
        shown = get_version_of(environment, LATEST)
    view = version_view(shown) if shown else None
    lock = _lock(shown)
    return {
        "section": "environments",
        "tab": tab,
        "environment": environment,
        "can_set": has_role(request.user, environment.owner, Role.MEMBER),
        "starred": bool(starred_by(request.user, [environment])),
        "evaluations_seen": evaluations_seen(request.user, [environment])[environment.pk],
        "origin": fork_origin(request.user, environment),
        "forks": forks_of(request.user, environment).order_by()[:MOST_COUNTED].count(),
        "dependants": dependants_of(request.user, environment)[: MOST_DEPENDANTS + 1],
        "most_dependants": MOST_DEPENDANTS,
        "shown": shown,
        "view": view,
        **_needs(view, is_latest=shown is not None and shown.pk == environment.latest_id),
        "lock": lock,
        "wanted": _wanted(view, lock) if view else "",
        "hub_url": str(settings.HUB.base_url).rstrip("/"),
        "is_latest": shown is not None and shown.pk == environment.latest_id,
    }


def _address(environment: Environment) -> str:
    return reverse("environment", args=[environment.owner.slug, environment.name])


def _needs(view: VersionView | None, *, is_latest: bool) -> dict[str, Any]:
    """Return what the version needs, each with what meets it, and the options with which a run must grant things."""
    if view is None:
        return {"needs": [], "grants": "", "partly": False}
    reference = f"{view.owner}/{view.name}" + ("" if is_latest else f"@{view.version}")
    rows = [{"need": need, "command": command_for(need, reference), "hint": hint_for(need, reference)}
            for need in view.needs]  # fmt: skip
    flags = flags_for((*view.needs, *view.granted))
    blocking = {need.key for check in view.checks for need in check.needs}  # others concern some examples
    partly = all(need.key not in blocking for need in view.needs)
    return {"needs": rows, "grants": f" {flags}" if flags else "", "partly": partly}


def _lock(version: Version | None) -> EnvironmentLock | None:
    if version is None or version.lock is None:
        return None
    try:
        return EnvironmentLock.model_validate(version.lock)
    except ValidationError:
        return None


def _wanted(view: VersionView, lock: EnvironmentLock | None) -> str:
    """Return what pip should install. The release of verifiers is pinned, because old packages need its old API."""
    release = f" verifiers=={lock.verifiers}" if lock and lock.verifiers else ""
    return f"{view.project}=={view.version}{release}"


@page
@require_safe
def environment_detail(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Show the latest version's README and what its build found: rewards, examples, tools, arguments."""
    context = environment_context(request, owner, name, tab="overview")
    shown = context["shown"]
    context["description"] = describe_for_page(shown.describe) if shown else None
    context |= building_context(shown)
    if fragment_of(request) and not context["building"]:
        return leave_for(request, request.path)  # the build has ended: reload the whole page
    return show(request, "registry/environment_detail.html", context)


@page
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def environment_settings(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Show or save the settings that members may change: description, visibility, tags."""
    context = environment_context(request, owner, name, tab="settings")
    environment = context["environment"]
    require_role(request.user, environment.owner, Role.MEMBER)
    context["can_archive"] = has_role(request.user, environment.owner, Role.MAINTAINER)
    context["targets"] = member_owners(request.user, Role.MEMBER) if context["can_archive"] else []
    context["former"] = environment.former_names.select_related("owner").order_by("pk")[:20]
    if request.method != "POST":
        return show(request, "registry/environment_settings.html", context)
    given = request.POST
    try:
        patch = validate(
            EnvironmentPatch,
            {
                "visibility": given.get("visibility", environment.visibility),
                "description": given.get("description", "").strip(),
                "tags": split_tags(given.get("tags", "")),
            },
        )
        patch_environment(environment=environment, patch=patch)
    except HubError as error:
        shown = context | {"error": error, "given": given}
        return show(request, "registry/environment_settings.html", shown, status=error.status)
    messages.success(request, "Saved.")
    return redirect("environment-settings", environment.owner.slug, environment.name)


@page
@login_required
@require_POST
def environment_archive(request: HttpRequest, owner: str, name: str) -> HttpResponse:
    """Archive an environment, or unarchive it (`archived=no`)."""
    environment = get_environment(request.user, owner, name)
    require_role(request.user, environment.owner, Role.MAINTAINER)
    archived = request.POST.get("archived") != "no"
    archive_environment(environment=environment, archived=archived)
    messages.success(request, "Archived. The environment is now read-only." if archived else "Unarchived.")
    return redirect("environment-settings", environment.owner.slug, environment.name)


@page
@login_required
@require_POST
def environment_move(request: HttpRequest, owner: str, name: str) -> HttpResponse:
    """Rename an environment, or transfer it to another owner."""
    user, environment = cast("User", request.user), get_environment(request.user, owner, name)
    require_role(user, environment.owner, Role.MAINTAINER)
    fields = {key: request.POST[key].strip() for key in ("owner", "name") if request.POST.get(key, "").strip()}
    to = validate(MoveRequest, fields)
    target = environment.owner if to.owner is None else get_owner(user, to.owner)
    require_role(user, target, Role.MEMBER)
    moved = move_environment(environment=environment, owner=target, name=to.name or environment.name)
    messages.success(request, f"Moved to {moved.owner.slug}/{moved.name}. The old address redirects here.")
    return redirect("environment", moved.owner.slug, moved.name)


@page
@login_required
@require_POST
def environment_star(request: HttpRequest, owner: str, name: str) -> HttpResponse:
    """Star an environment, or remove the star (`starred=no`); htmx gets the updated button."""
    user = cast("User", request.user)
    found, starred = get_environment(user, owner, name), request.POST.get("starred") != "no"
    found = star_environment(user=user, environment=found, starred=starred)
    if request.headers.get("HX-Request"):
        return render(request, "registry/_star.html", {"environment": found, "starred": starred})
    return redirect("environment", found.owner.slug, found.name)


@page
@require_safe
def version_list(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """List all versions, the latest push first."""
    context = environment_context(request, owner, name, tab="versions")
    rows, following = newest_first(environment_versions(context["environment"]), request, default=PAGE)
    return show(request, "registry/version_list.html", context | {"versions": rows, "next": following})


@page
@require_safe
def version_detail(request: HttpRequest, owner: str, name: str, version: str) -> HttpResponseBase:
    """Show what the build found: checks, stages, description, lock."""
    context = environment_context(request, owner, name, tab="versions", version=version)
    shown = context["shown"]
    member = has_role(request.user, context["environment"].owner, Role.MEMBER)
    context |= building_context(shown)
    building = context["building"]
    if fragment_of(request) and not building:
        return leave_for(request, request.path)  # the build has ended: reload the whole page
    return show(
        request,
        "registry/version_detail.html",
        context
        | {
            "description": describe_for_page(shown.describe),
            "stages": _stages(shown.build_seconds),
            "follows_log": building and has_role(request.user, context["environment"].owner, Role.READER),
            "can_rebuild": member and (not building or context["retry_at"]),
            "can_yank": member and shown.state == VersionState.READY.value and not context["environment"].archived,
            "can_check": member and shown.state == VersionState.READY.value and not _is_checked(shown),
            "is_checked": _is_checked(shown),
        },
    )


def _is_checked(version: Version) -> bool:
    """Return whether a run of the checks alone is waiting or running."""
    return version.check_run is not None and not RunState(version.check_run.state).is_final


def _stages(seconds: dict[str, float]) -> list[tuple[str, float, float, float]]:
    """Return (name, seconds, start and width in percent), in the order in which the worker measured them."""
    total, x, rows = sum(seconds.values()) or 1.0, 0.0, []
    for name, value in seconds.items():
        rows.append((name, value, round(100 * x / total, 2), round(100 * value / total, 2)))
        x += value
    return rows


@page
@require_safe
def version_files(request: HttpRequest, owner: str, name: str, version: str) -> HttpResponseBase:
    """List the files of the source distribution; with `path`, show the text of one."""
    context = environment_context(request, owner, name, tab="files", version=version)
    path = request.GET.get("path", "")
    shown = context["shown"]
    return show(
        request,
        "registry/version_files.html",
        context | {"entries": file_tree(shown.files), "path": path, "file": read_file(shown, path) if path else None},
    )


@page
@login_required
@require_POST
def version_rebuild(request: HttpRequest, owner: str, name: str, version: str) -> HttpResponse:
    """Build a version again."""
    user = cast("User", request.user)
    environment = get_environment(user, owner, name)
    require_role(user, environment.owner, Role.MEMBER)
    run = rebuild_version(version=get_version_of(environment, version), user=user)
    messages.info(request, "Queued a new build of this version.")
    return redirect("run", run.pk)


@page
@login_required
@require_POST
def version_check(request: HttpRequest, owner: str, name: str, version: str) -> HttpResponse:
    """Check a version again with its current settings."""
    user = cast("User", request.user)
    environment = get_environment(user, owner, name)
    require_role(user, environment.owner, Role.MEMBER)
    found = check_version(version=get_version_of(environment, version), user=user, given=CheckSettings())
    messages.info(request, "Queued the checks. The version stays as it is meanwhile.")
    return redirect("version", owner, name, found.version)


@page
@login_required
@require_POST
def version_yank(request: HttpRequest, owner: str, name: str, version: str) -> HttpResponse:
    """Yank a version, with a reason that is then shown, or undo that (`yanked=no`)."""
    environment = get_environment(request.user, owner, name)
    require_role(request.user, environment.owner, Role.MEMBER)
    given = {"yanked": request.POST.get("yanked") != "no", "reason": request.POST.get("reason", "").strip()}
    asked = validate(YankRequest, given)
    found = yank_version(version=get_version_of(environment, version), yanked=asked.yanked, reason=asked.reason)
    messages.success(request, "Yanked. Only an exact pin installs this version." if asked.yanked else "Unyanked.")
    return redirect("version", environment.owner.slug, environment.name, found.version)
