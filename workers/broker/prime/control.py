"""The routes that create, list, inspect and end sandboxes."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import BaseModel, Field

from workers.broker.bodies import read_json, whole
from workers.broker.interface import ROLLOUT_HEADER, Held, State, Wish
from workers.broker.prime import egress
from workers.broker.prime.jobs import Id, job_statuses
from workers.broker.prime.service import HOLD_ONE_S, KEYS_KEPT, SERVICE, Service, settle
from workers.broker.prime.shapes import STATUS, error_context, sandbox_object, status_object
from workers.broker.prime.wishes import CreateRequest, wish_of
from workers.broker.refusals import Refusal

Ids = Annotated[list[Id], Field(max_length=1000)]
PAGE_LIMIT = 100


class StatusRequest(BaseModel):
    sandbox_ids: Annotated[list[Id], Field(min_length=1, max_length=100)]


class DeleteRequest(BaseModel):
    sandbox_ids: Ids | None = None
    labels: Ids | None = None


async def create(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    asked = await read_json(request, CreateRequest)
    wish = wish_of(asked, service.run_allows)
    rollout = request.headers.get(ROLLOUT_HEADER, "")[:200]
    key = asked.idempotency_key or secrets.token_hex(16)
    held = await _made(service, key)
    if held is None:
        _remember(service, key, asyncio.ensure_future(_make(service, wish, rollout)))
        held = await _made(service, key)
    if held is None:
        raise Refusal(503, "the sandbox ended before its creation was answered")
    service.begun(held).vm = asked.vm
    told = await sandbox_object(held, asked.vm)
    return web.json_response({**told, "gatewayAuth": service.gateway(request, held)})


async def _make(service: Service, wish: Wish, rollout: str) -> str:
    return (await service.session.create(wish, rollout=rollout)).id


async def _made(service: Service, key: str) -> Held | None:
    """Return the sandbox that a request with this idempotency key created or is creating, or None.

    A client that got no answer repeats its request with the same key.
    """
    making = service.by_key.get(key)
    return None if making is None else service.session.find(await asyncio.shield(making))


def _remember(service: Service, key: str, making: asyncio.Task[str]) -> None:
    """Remember a creation by its key unless it fails: after a refusal the same key may be tried again."""
    while len(service.by_key) >= KEYS_KEPT:
        service.by_key.pop(next(iter(service.by_key)))
    service.by_key[key] = making
    making.add_done_callback(
        lambda task: service.by_key.pop(key, None) if task.cancelled() or task.exception() else None
    )


async def list_sandboxes(request: web.Request) -> web.Response:
    service, query = request.app[SERVICE], request.query
    page = whole(request, "page", 1, least=1, most=1_000_000)
    per_page = whole(request, "per_page", 50, least=1, most=PAGE_LIMIT)
    labels, status = set(query.getall("labels", [])), query.get("status")
    found = [
        held
        for held in service.session.all()
        if labels <= set(held.wish.labels)
        and (not status or STATUS[held.state] == status.upper())
        and not (query.get("is_active", "").lower() == "true" and held.state.final)
    ]
    shown = found[(page - 1) * per_page : page * per_page]
    await settle(shown)
    objects = [await sandbox_object(held, service.begun(held).vm) for held in shown]
    return web.json_response(
        {
            "sandboxes": objects,
            "total": len(found),
            "page": page,
            "perPage": per_page,
            "hasNext": page * per_page < len(found),
        }
    )


async def get(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    held = service.known(request)
    await settle([held], HOLD_ONE_S)
    return web.json_response(await sandbox_object(held, service.begun(held).vm))


async def statuses(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    asked = (await read_json(request, StatusRequest)).sandbox_ids
    found = {sandbox_id: service.session.find(sandbox_id) for sandbox_id in asked}
    await settle([held for held in found.values() if held is not None])
    errors = [
        {"sandbox_id": sandbox_id, "code": "NOT_FOUND", "message": "Sandbox not found"}
        for sandbox_id, held in found.items()
        if held is None
    ]
    told = [await status_object(held) for held in found.values() if held is not None]
    return web.json_response({"statuses": told, "errors": errors})


async def delete(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    held = service.known(request)
    await _end(service, held)
    return web.json_response({"message": f"Sandbox {held.id} deleted", "id": held.id})


async def delete_many(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    asked = await read_json(request, DeleteRequest)
    if not asked.sandbox_ids and not asked.labels:
        raise Refusal(422, "name the sandboxes to delete, by sandbox_ids or by labels")
    named = dict.fromkeys(asked.sandbox_ids or [])
    chosen = [held for held in map(service.session.find, named) if held is not None]
    lacking = [name for name in named if service.session.find(name) is None]
    if asked.labels:
        wanted = set(asked.labels)
        chosen += [it for it in service.session.all() if wanted <= set(it.wish.labels) and not it.state.final]
    await asyncio.gather(*(_end(service, held) for held in chosen))
    succeeded = list(dict.fromkeys(held.id for held in chosen))
    failed = [{"sandbox_id": name, "error": "Sandbox not found"} for name in lacking]
    answer: JsonObject = {"message": f"{len(succeeded)} sandboxes deleted"}
    return web.json_response({**answer, "succeeded": succeeded, "failed": failed})


async def _end(service: Service, held: Held) -> None:
    if not held.state.final:
        await held.end(State.STOPPED, "deleted by its client")
    service.forget_begun(held)


async def authorize(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    return web.json_response(service.gateway(request, service.known(request)))


async def logs(request: web.Request) -> web.Response:
    held = request.app[SERVICE].known(request)
    return web.json_response({"logs": held.log().decode(errors="replace")})


async def context(request: web.Request) -> web.Response:
    return web.json_response(await error_context(request.app[SERVICE].known(request)))


async def get_egress(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    allowed = service.known(request).wish.allow_hosts
    return web.json_response(egress.policy_object(service.run_allows if allowed is None else allowed))


async def set_egress(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    return web.json_response(
        egress.policy_object(await egress.change(request, service.known(request), service.run_allows))
    )


def add_control(app: web.Application, base: str) -> None:
    """Add the routes. Fixed paths come before `{sandbox}`, which would match them too."""
    add = app.router.add_route
    add("POST", base, create)
    add("GET", base, list_sandboxes)
    add("DELETE", base, delete_many)
    add("POST", f"{base}/status:batchGet", statuses)
    add("POST", f"{base}/background-jobs/status:batchGet", job_statuses)
    one = f"{base}/{{sandbox}}"
    add("GET", one, get)
    add("DELETE", one, delete)
    add("POST", f"{one}/auth", authorize)
    add("GET", f"{one}/logs", logs)
    add("GET", f"{one}/error-context", context)
    add("GET", f"{one}/egress-policy", get_egress)
    add("PUT", f"{one}/egress-policy", set_egress)
