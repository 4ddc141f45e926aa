"""What goes on inside of a sandbox, over HTTP: commands, processes, files, its log and what it uses.

In production hub.sandboxes.direct answers callers with a token before Django; these views describe the calls, and
answer sessions. Both pass them on to the worker; streams are read to their end here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Any
from urllib.parse import urlencode

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from envhub.protocol.accounts.users import Scope
from envhub.protocol.sandboxes.sandboxes import (
    CommandList,
    Done,
    ExecRequest,
    ExecResult,
    InputTaken,
    OutputEvent,
    ProcessList,
    ProcessRequest,
    ProcessView,
    SandboxStats,
    SignalRequest,
    TerminalSize,
)
from rest_framework.decorators import api_view, parser_classes
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from hub.accounts.permissions import require_scope
from hub.core.errors import MethodNotAllowed, TooLarge
from hub.core.ids import GivenId
from hub.sandboxes.queries import place_for
from hub.sandboxes.routes import BYTES, LINES, answer_headers, call_of
from hub.sandboxes.worker_pool import ask

LONGEST_S = 3700.0  # the longest that a command may take, and a little
_WAIT = OpenApiParameter("wait", bool, description="0: do not wait for what comes; default: until it has ended")
_AFTER = OpenApiParameter("after", int, description="only events after this `seq`: goes on where a stream broke")
_FILE = OpenApiParameter("path", str, required=True, description="of the file, absolute")
_MODE = OpenApiParameter("mode", str, description="its permissions, octal; default: 644")
_END = OpenApiParameter("end", bool, description="1: this was the last of the input")
_Bytes = {(200, BYTES): OpenApiTypes.BINARY}


class _Raw(BaseParser):
    """Leaves a body of any type unparsed: the worker interprets it."""

    media_type = "*/*"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Not called: `pass_on` reads the body itself."""
        return {}


def pass_on(request: Request, sandbox_id: GivenId) -> HttpResponse:
    """Return the worker's response. Raises NotAuthenticated, NotAllowed, NotFound, Conflict, TooLarge, Unavailable."""
    call = call_of(str(request.method), request.path)
    if call is None:
        raise MethodNotAllowed("this call is not supported")
    user = require_scope(request, Scope.WRITE if call.writes else Scope.READ)
    place = place_for(user, sandbox_id, write=call.writes)
    content = request._request.body if call.writes else b""
    if len(content) > call.body_limit:
        raise TooLarge(f"the request has more than {call.body_limit} bytes")
    target = call.path + (f"?{urlencode(request.GET)}" if request.GET else "")
    kind = str(request.META.get("CONTENT_TYPE", ""))
    found = ask(place, call.method, target, content=content, kind=kind, timeout_s=LONGEST_S)
    refused = {"Content-Type": "application/json"} if found.status_code >= 400 else {}
    return HttpResponse(found.content, status=found.status_code, headers=answer_headers(call) | refused)


View = Callable[..., HttpResponse]


def _view(*methods: str) -> Callable[[View], View]:
    def decorate(view: View) -> View:
        made: View = api_view(list(methods))(parser_classes([_Raw])(view))
        return made

    return decorate


@extend_schema(request=ExecRequest, responses=ExecResult)
@_view("POST")
def sandbox_exec(request: Request, sandbox_id: GivenId) -> HttpResponse:
    """Run a command to its end. For commands that take minutes, start a process and read its output."""
    return pass_on(request, sandbox_id)


@extend_schema(methods=["GET"], responses=ProcessList)
@extend_schema(methods=["POST"], request=ProcessRequest, responses=ProcessView)
@_view("GET", "POST")
def sandbox_processes(request: Request, sandbox_id: GivenId) -> HttpResponse:
    """List the processes started in a sandbox, or start one.

    POST starts a process in the background or with a terminal.
    """
    return pass_on(request, sandbox_id)


@extend_schema(methods=["GET"], responses=ProcessView)
@extend_schema(methods=["DELETE"], responses=Done)
@_view("GET", "DELETE")
def sandbox_process(request: Request, sandbox_id: GivenId, pid: int) -> HttpResponse:
    """Return whether and how a process has ended, or kill it."""
    return pass_on(request, sandbox_id)


@extend_schema(parameters=[_AFTER, _WAIT], responses={(200, LINES): OutputEvent})
@_view("GET")
def sandbox_output(request: Request, sandbox_id: GivenId, pid: int) -> HttpResponse:
    """Stream the output of a process until it ends. Each line is a JSON object (OutputEvent)."""
    return pass_on(request, sandbox_id)


@extend_schema(parameters=[_END], request={BYTES: OpenApiTypes.BINARY}, responses=InputTaken)
@_view("POST")
def sandbox_input(request: Request, sandbox_id: GivenId, pid: int) -> HttpResponse:
    """Send bytes to the standard input, or the terminal, of a process. With `partial`, it may take only some."""
    return pass_on(request, sandbox_id)


@extend_schema(request=SignalRequest, responses=Done)
@_view("POST")
def sandbox_signal(request: Request, sandbox_id: GivenId, pid: int) -> HttpResponse:
    """Send a signal to a process."""
    return pass_on(request, sandbox_id)


@extend_schema(request=TerminalSize, responses=Done)
@_view("POST")
def sandbox_resize(request: Request, sandbox_id: GivenId, pid: int) -> HttpResponse:
    """Change the size of a process's terminal."""
    return pass_on(request, sandbox_id)


@extend_schema(methods=["GET"], parameters=[_FILE], responses=_Bytes)
@extend_schema(methods=["PUT"], parameters=[_FILE, _MODE], request={BYTES: OpenApiTypes.BINARY}, responses=Done)
@_view("GET", "PUT")
def sandbox_files(request: Request, sandbox_id: GivenId) -> HttpResponse:
    """Read or write a file. The body is the file's bytes. PUT creates missing directories."""
    return pass_on(request, sandbox_id)


@extend_schema(responses=_Bytes)
@_view("GET")
def sandbox_log(request: Request, sandbox_id: GivenId) -> HttpResponse:
    """Return the output of the sandbox's start command, if it has one."""
    return pass_on(request, sandbox_id)


@extend_schema(responses=SandboxStats)
@_view("GET")
def sandbox_stats(request: Request, sandbox_id: GivenId) -> HttpResponse:
    """Return what a sandbox uses now."""
    return pass_on(request, sandbox_id)


@extend_schema(responses=CommandList)
@_view("GET")
def sandbox_commands(request: Request, sandbox_id: GivenId) -> HttpResponse:
    """List the last commands executed in a sandbox, with their output."""
    return pass_on(request, sandbox_id)
