"""Named volumes: folders of the client's box, which containers of one box share by name. See folders.py."""

from __future__ import annotations

import secrets
from typing import Annotated

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import BaseModel, Field

from workers.broker.bodies import read_json
from workers.broker.docker.folders import NAME, VOLUMES
from workers.broker.docker.wishes import Short, Text
from workers.broker.refusals import Refusal

MOST = 100
VOLUMES_KEY: web.AppKey[dict[str, JsonObject]] = web.AppKey("volumes", dict[str, JsonObject])


class VolumeRequest(BaseModel):
    name: Short = Field("", alias="Name")
    labels: Annotated[dict[Short, Text], Field(max_length=200)] | None = Field(None, alias="Labels")


async def create(request: web.Request) -> web.Response:
    asked, known = await read_json(request, VolumeRequest), request.app[VOLUMES_KEY]
    name = asked.name or secrets.token_hex(32)
    if not NAME.fullmatch(name):
        raise Refusal(400, f"{name[:200]!r} is no name of a volume: letters, digits, . _ and -")
    if name not in known and len(known) >= MOST:
        raise Refusal(400, f"there are {MOST} volumes; remove some first")
    told: JsonObject = {"Name": name, "Driver": "local", "Scope": "local", "Options": {}}
    made = known.setdefault(name, {**told, "Mountpoint": f"{VOLUMES}/{name}", "Labels": asked.labels or {}})
    return web.json_response(made, status=201)


async def list_volumes(request: web.Request) -> web.Response:
    return web.json_response({"Volumes": list(request.app[VOLUMES_KEY].values()), "Warnings": None})


async def inspect(request: web.Request) -> web.Response:
    name = request.match_info["volume"]
    if name not in request.app[VOLUMES_KEY]:
        raise Refusal(404, f"get {name[:200]}: no such volume")
    return web.json_response(request.app[VOLUMES_KEY][name])


async def remove(request: web.Request) -> web.Response:
    """Forget it; its files are gone with the box."""
    if request.app[VOLUMES_KEY].pop(request.match_info["volume"], None) is None:
        raise Refusal(404, f"get {request.match_info['volume'][:200]}: no such volume")
    return web.Response(status=204)


def add_volumes(app: web.Application, base: str) -> None:
    app.setdefault(VOLUMES_KEY, {})
    app.router.add_post(f"{base}/volumes/create", create)
    app.router.add_get(f"{base}/volumes", list_volumes)
    app.router.add_get(f"{base}/volumes/{{volume}}", inspect)
    app.router.add_delete(f"{base}/volumes/{{volume}}", remove)
