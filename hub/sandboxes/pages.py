"""Pages of sandboxes: those of a user's owners, and one with what was executed in it, live."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe
from envhub.protocol.sandboxes.live import command_line
from envhub.protocol.sandboxes.sandboxes import CommandList, CommandView, PortRequest, SandboxState, SandboxStats
from pydantic import BaseModel, ValidationError

from hub.accounts.models import User
from hub.accounts.queries import Caller, visible_owners
from hub.core import clock
from hub.core.errors import HubError
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import newest_first
from hub.runs.live_sandboxes import runs_with_sandboxes
from hub.runs.models import RunSandboxes
from hub.runs.queries import log_end, read_log
from hub.sandboxes.addresses import port_address
from hub.sandboxes.models import Sandbox
from hub.sandboxes.queries import (
    filter_sandboxes,
    get_sandbox,
    is_ending,
    may_use,
    open_ports,
    place_of,
    visible_sandboxes,
)
from hub.sandboxes.services import close_port, delete_sandbox, open_port
from hub.sandboxes.wire import sandbox_view, sandbox_views
from hub.sandboxes.worker_pool import ask

Answer = TypeVar("Answer", bound=BaseModel)
MOST_SHOWN = 100  # commands
LOG_SHOWN = 64 * 1024  # characters of its end
PAGE_PORT_S = 3600.0  # that an address is good which is opened on a page
PATIENCE_S = 2.0  # a page does not wait longer for a worker


@page
@login_required
@require_safe
def sandbox_list(request: HttpRequest) -> HttpResponseBase:
    """The user's sandboxes, newest first; filters that name nothing count as none."""
    state, owner, label = (request.GET.get(name, "") for name in ("state", "owner", "label"))
    rows = filter_sandboxes(
        visible_sandboxes(request.user),
        owner=owner,
        state=SandboxState(state) if state in set(SandboxState) else None,
        label=label,
    )
    found, following = newest_first(rows, request)
    views = sandbox_views(found, now=clock.now())
    context = {
        "section": "sandboxes",
        "sandboxes": views,
        "states": [item.value for item in SandboxState],
        "owners": [item.slug for item in visible_owners(request.user)[:200]],
        "state": state,
        "owner": owner,
        "label": label,
        "next": following,
        "moving": any(not view.state.is_final for view in views) and "before" not in request.GET,
        "runs": _runs(request, owner) if not (state or label or "before" in request.GET) else [],
    }
    return show(request, "sandboxes/sandbox_list.html", context)


def _runs(request: HttpRequest, owner: str) -> list[RunSandboxes]:
    """Return the user's runs whose environments have sandboxes now."""
    return runs_with_sandboxes(owners=visible_owners(request.user), owner=owner)


@page
@login_required
@require_safe
def sandbox_detail(request: HttpRequest, sandbox_id: GivenId) -> HttpResponseBase:
    """One sandbox: where it stands, what it uses and what was executed in it (live)."""
    row = get_sandbox(request.user, sandbox_id)
    view = sandbox_view(row, now=clock.now())
    ending = is_ending(row)
    context = {
        "section": "sandboxes",
        "sandbox": view,
        "ending": ending,
        "can_end": may_use(request.user, row) and not view.state.is_final and not ending,
        **(_inside(row) if view.state is SandboxState.RUNNING else {}),
        **(_ports(row, request.user) if view.state is SandboxState.RUNNING else {}),
        "log": _end_of_log(row) if view.state.is_final else "",
    }
    return show(request, "sandboxes/sandbox_detail.html", context)


def _ports(row: Sandbox, user: Caller) -> dict[str, Any]:
    """Those that are open; their addresses for those who could make one."""
    used = may_use(user, row)
    found = open_ports(row, clock.now())
    return {"can_open": used, "ports": [(opened, port_address(opened).url if used else "") for opened in found]}


def _end_of_log(row: Sandbox) -> str:
    """Once it has ended: one line for each command that was executed in it."""
    run = row.run
    return read_log(run.pk, run.attempt, max(0, log_end(run.pk, run.attempt) - LOG_SHOWN)).text


def _inside(row: Sandbox) -> dict[str, Any]:
    """What its worker tells of it; a worker that does not answer costs the page two seconds, not itself."""
    try:
        place = place_of(row)
        stats = _read(ask(place, "GET", "/stats", timeout_s=PATIENCE_S).content, SandboxStats)
        commands = _read(ask(place, "GET", "/commands", timeout_s=PATIENCE_S).content, CommandList)
    except HubError as error:
        return {"problem": error}
    numbered = list(enumerate(commands.items if commands else (), 1))
    return {"stats": stats, "commands": [_shown(number, one) for number, one in reversed(numbered[-MOST_SHOWN:])]}


def _shown(number: int, command: CommandView) -> dict[str, Any]:
    """A command with a key of its own: what somebody has unfolded stays so while the page renews itself."""
    return {"key": f"{command.began:%H%M%S%f}-{number}", "line": command_line(command.argv), "view": command}


def _read(content: bytes, kind: type[Answer]) -> Answer | None:
    try:
        return kind.model_validate_json(content)
    except ValidationError:  # it ended this moment
        return None


@page
@login_required
@require_POST
def sandbox_end(request: HttpRequest, sandbox_id: GivenId) -> HttpResponse:
    """End a sandbox."""
    user = cast("User", request.user)
    delete_sandbox(user=user, sandbox=get_sandbox(user, sandbox_id))
    messages.info(request, "Ending the sandbox.")
    return redirect("sandbox", sandbox_id)


@page
@login_required
@require_POST
def sandbox_open_port(request: HttpRequest, sandbox_id: GivenId) -> HttpResponse:
    """Make an address for a port."""
    user = cast("User", request.user)
    try:
        wanted = PortRequest(port=request.POST.get("port", ""), seconds=PAGE_PORT_S)
    except ValidationError:
        messages.error(request, "The port must be a number from 1 to 65535.")
        return redirect("sandbox", sandbox_id=str(get_sandbox(user, sandbox_id).pk))
    row = get_sandbox(user, sandbox_id)
    open_port(user=user, sandbox=row, request=wanted, now=clock.now())
    return redirect("sandbox", sandbox_id=str(row.pk))


@page
@login_required
@require_POST
def sandbox_close_port(request: HttpRequest, sandbox_id: GivenId, port_id: GivenId) -> HttpResponse:
    """Its address leads nowhere from now on."""
    user = cast("User", request.user)
    row = get_sandbox(user, sandbox_id)
    close_port(user=user, sandbox=row, port_id=port_id)
    messages.info(request, "Port closed. Its address no longer works.")
    return redirect("sandbox", sandbox_id=str(row.pk))
