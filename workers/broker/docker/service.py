"""A part of Docker's Engine API on a unix socket, for Python's docker package and Docker's command line.

async with serve_docker(sockets / SOCKET, session): ...
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from envhub.protocol.base import JsonObject

from workers.broker.docker.archives import add_archives
from workers.broker.docker.containers import ENGINE, add_containers, image_id
from workers.broker.docker.engine import Engine
from workers.broker.docker.executions import add_executions
from workers.broker.docker.volumes import add_volumes
from workers.broker.home import Home
from workers.broker.interface import Session
from workers.broker.memory import MEMORY, Memory
from workers.broker.refusals import Handler, Refusal, logged_fault, refusal_of

SOCKET = "docker.sock"  # file name among a box's sockets
API, OLDEST, ENGINE_VERSION = "1.43", "1.24", "24.0.0"  # an engine of this version speaks this API version
# limits that exist here
LIMITS = ("MemoryLimit", "SwapLimit", "CpuCfsQuota", "CpuCfsPeriod", "CPUShares", "CPUSet", "PidsLimit")
BASES = ("", r"/v{version:1\.[0-9]{1,3}}")  # clients prefix paths with the API version that they negotiated
LACKING = {
    "/build": "images are not built from inside a run: put the folder with the Dockerfile into the package, or make "
    "the image before by hub image build",
    "/commit": "this hub keeps no changed containers as images",
    "/networks/create": "containers of this hub join no networks: each one reaches what its run allows",
    "/auth": "credentials of registries are the operator's here",
    "/events": "this engine tells no events: ask for a container's state",
}


def docker_variables(socket: str) -> Mapping[str, str]:
    """Return the variables for programs in a box that has the socket at this path."""
    return {"DOCKER_HOST": f"unix://{socket}"}


@asynccontextmanager
async def serve_docker(socket: Path, session: Session, home: Home) -> AsyncIterator[None]:
    """Serve the API to the programs in `home` until the context ends. The session ends the containers."""
    app = docker_app(session, home)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    await web.UnixSite(runner, str(socket)).start()
    socket.chmod(0o666)  # the box may run under another uid; only this box has the directory bound in
    try:
        yield
    finally:
        app[ENGINE].close()
        await runner.cleanup()
        socket.unlink(missing_ok=True)


def docker_app(session: Session, home: Home) -> web.Application:
    """Build the application with all routes."""
    app = web.Application(middlewares=[answer_refusals])
    app[ENGINE], app[MEMORY] = Engine(session, home), Memory()
    for base in BASES:
        app.router.add_get(f"{base}/_ping", ping)
        app.router.add_get(f"{base}/version", version)
        app.router.add_get(f"{base}/info", info)
        app.router.add_get(f"{base}/networks", _always([]))
        app.router.add_get(f"{base}/images/json", _always([]))
        app.router.add_post(f"{base}/images/create", pull)
        app.router.add_get(f"{base}/images/{{name:.+}}/json", image)
        app.router.add_delete(f"{base}/images/{{name:.+}}", _always([]))
        add_containers(app, base)
        add_archives(app, base)
        add_executions(app, base)
        add_volumes(app, base)
        for path, words in LACKING.items():
            app.router.add_route("*", f"{base}{path}{{tail:.*}}", _lacking(words))
    return app


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error in the format of Docker's engine."""
    try:
        return await handler(request)
    except ConnectionError:  # the client has disconnected
        raise
    except Exception as error:  # noqa: BLE001 - logged_fault logs unexpected errors
        refusal = refusal_of(error) or logged_fault(error, request)
        # docker's command line does not parse the content type with a charset
        body = json.dumps({"message": refusal.detail}).encode()
        return web.Response(body=body, status=refusal.status, content_type="application/json")


async def ping(request: web.Request) -> web.Response:
    headers = {"Api-Version": API, "Ostype": "linux", "Docker-Experimental": "false", "Cache-Control": "no-cache"}
    return web.Response(text="OK", headers=headers)


async def version(request: web.Request) -> web.Response:
    told = {"Version": ENGINE_VERSION, "ApiVersion": API, "MinAPIVersion": OLDEST, "Os": "linux", "Arch": "amd64"}
    return web.json_response({**told, "Platform": {"Name": "Environments Hub"}, "Components": []})


async def info(request: web.Request) -> web.Response:
    containers = request.app[ENGINE].all()
    running = sum(container.state == "running" for container in containers)
    told: JsonObject = {"Containers": len(containers), "ContainersRunning": running, "OSType": "linux", "Images": 0}
    told.update(dict.fromkeys(LIMITS, True), ServerVersion=ENGINE_VERSION, Name="hub", Driver="hub", Plugins={})
    return web.json_response(told)


async def pull(request: web.Request) -> web.Response:
    """Accept a pull without fetching anything: a container that starts waits for its image, or fails then."""
    name, tag = request.query.get("fromImage", ""), request.query.get("tag", "")
    if not name:
        raise Refusal(501, "images are not made from archives inside a run: hub image add makes one")
    whole = f"{name}@{tag}" if tag.startswith("sha256:") else f"{name}:{tag}" if tag else name
    return web.json_response({"status": f"{whole} is fetched when a container needs it"})


async def image(request: web.Request) -> web.Response:
    """Describe an image, as clients ask after a pull; whether it exists turns out only when a container starts."""
    name = request.match_info["name"]
    told: JsonObject = {"Id": image_id(name), "RepoTags": [name], "RepoDigests": [], "Config": {}, "RootFS": {}}
    return web.json_response({**told, "Os": "linux", "Architecture": "amd64", "Size": 0})


def _always(answer: object) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer)

    return handle


def _lacking(words: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        raise Refusal(501, words)

    return handle
