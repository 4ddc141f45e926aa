"""The OpenAI-compatible routes as Django views: /inference/v1/models[/NAME], /chat/completions, /completions.

In production, hub.inference.direct answers the calls in front of Django; both are thin layers over
hub.inference.gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt

from hub.catalog.models import Model
from hub.catalog.queries import get_model, visible_models
from hub.core.database_threads import in_database
from hub.core.errors import HubError, MethodNotAllowed, NotFound
from hub.inference.gateway import Answer, answer_call, refusal_of, refuse
from hub.inference.lookup import caller_of

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def guarded(method: str) -> Callable[[View], View]:
    """Return a decorator for views with one method, no CSRF (bearer tokens only), and errors in OpenAI's format."""

    def decorate(view: View) -> View:
        @csrf_exempt
        async def run(request: HttpRequest, **place: str) -> HttpResponseBase:
            try:
                if request.method != method:
                    raise MethodNotAllowed(f"use {method}")
                return await view(request, **place)
            except HubError as error:
                return _response(refuse(error))

        return run

    return decorate


def _response(answer: Answer) -> HttpResponseBase:
    if isinstance(answer.content, bytes):
        return HttpResponse(answer.content, answer.kind, answer.status, headers=answer.headers)
    return StreamingHttpResponse(answer.content, status=answer.status, content_type=answer.kind, headers=answer.headers)


def _authorization(request: HttpRequest) -> str:
    return str(request.META.get("HTTP_AUTHORIZATION", ""))


@guarded("GET")
async def models(request: HttpRequest) -> HttpResponse:
    """List the models that the caller may use."""

    def read() -> list[dict[str, Any]]:
        user, _ = caller_of(_authorization(request))
        return [_described(row) for row in visible_models(user)[:1000]]

    return JsonResponse({"object": "list", "data": await in_database(read)})


@guarded("GET")
async def model(request: HttpRequest, owner: str, name: str) -> HttpResponse:
    """Return one model that the caller may use."""

    def read() -> dict[str, Any]:
        user, _ = caller_of(_authorization(request))
        return _described(get_model(user, f"{owner}/{name}"))

    return JsonResponse(await in_database(read))


def _described(row: Model) -> dict[str, Any]:
    return {
        "id": f"{row.owner.slug}/{row.name}",
        "object": "model",
        "created": int(row.created_at.timestamp()),
        "owned_by": row.owner.slug,
    }


async def _answer(request: HttpRequest, path: str) -> HttpResponseBase:
    authorization = _authorization(request)
    return _response(await refusal_of(authorization) or await answer_call(authorization, request.body, path))


@guarded("POST")
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """Answer POST /inference/v1/chat/completions."""
    return await _answer(request, "chat/completions")


@guarded("POST")
async def completions(request: HttpRequest) -> HttpResponseBase:
    """Answer POST /inference/v1/completions."""
    return await _answer(request, "completions")


@csrf_exempt
async def not_offered(request: HttpRequest, rest: str) -> HttpResponseBase:
    """Answer the rest of OpenAI's API by saying what is offered instead."""
    del request
    kind, _, name = rest.partition("/")
    if kind == "models" and name:
        hint = "models are called owner/name: `hub model list`"
        return _response(refuse(NotFound(f"no model {name[:200]}", code="model_not_found", hint=hint)))
    offered = "available here: /models, /chat/completions and /completions"
    return _response(refuse(NotFound(f"/inference/v1/{rest} does not exist", hint=offered)))
