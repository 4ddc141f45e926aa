"""The container routes, which `docker run`, `ps`, `inspect`, `logs`, `wait`, `stop` and `rm` call."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import nullcontext
from datetime import datetime

from aiohttp import web
from envhub.protocol.base import JsonObject

from workers.broker.bodies import read_json, whole
from workers.broker.docker.engine import STOP_S, Container, Engine, signal_number
from workers.broker.docker.hijack import FRAMED, RAW, hijack
from workers.broker.docker.output import Follower, frame
from workers.broker.docker.wishes import CreateRequest, argv_of
from workers.broker.interface import ROLLOUT_HEADER
from workers.broker.pieces import Piece
from workers.broker.refusals import Refusal

ENGINE: web.AppKey[Engine] = web.AppKey("engine", Engine)
NEVER = "0001-01-01T00:00:00Z"
LONGEST_STOP_S = 3600


def found(request: web.Request) -> Container:
    """Return the container that the request's path names. Raises Refusal."""
    return request.app[ENGINE].find(request.match_info["container"])


def flag(request: web.Request, name: str) -> bool:
    """Return a boolean of the query, parsed as Docker does."""
    return request.query.get(name, "").lower() in ("1", "true", "yes", "on")


async def create(request: web.Request) -> web.Response:
    asked = await read_json(request, CreateRequest)
    rollout = request.headers.get(ROLLOUT_HEADER, "")[:200]
    made = await request.app[ENGINE].create(asked, request.query.get("name", "").removeprefix("/"), rollout)
    return web.json_response({"Id": made.id, "Warnings": []}, status=201)


async def start(request: web.Request) -> web.Response:
    container = found(request)
    if container.main.runs:
        return web.Response(status=304)
    await request.app[ENGINE].start(container)
    return web.Response(status=204)


async def stop(request: web.Request) -> web.Response:
    seconds = whole(request, "t", int(STOP_S), least=0, most=LONGEST_STOP_S)
    ran = await request.app[ENGINE].stop(found(request), seconds)
    return web.Response(status=204 if ran else 304)


async def restart(request: web.Request) -> web.Response:
    container, engine = found(request), request.app[ENGINE]
    await engine.stop(container, whole(request, "t", int(STOP_S), least=0, most=LONGEST_STOP_S))
    await engine.start(container)
    return web.Response(status=204)


async def kill(request: web.Request) -> web.Response:
    await request.app[ENGINE].kill(found(request), signal_number(request.query.get("signal", "KILL")))
    return web.Response(status=204)


async def remove(request: web.Request) -> web.Response:
    await request.app[ENGINE].remove(found(request), force=flag(request, "force"))
    return web.Response(status=204)


async def wait(request: web.Request) -> web.StreamResponse:
    """Wait for the container's end and report its exit status.

    The head of the answer is sent at once: `docker run` starts the container only after it has that.
    """
    container = found(request)
    if request.query.get("condition") in (None, "", "not-running") and not container.main.runs:
        return web.json_response({"StatusCode": container.main.exit_code or 0})
    main = request.app[ENGINE].next_main(container)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await main.done.wait()
    await response.write(json.dumps({"StatusCode": main.exit_code or 0}).encode())
    return response


async def inspect(request: web.Request) -> web.Response:
    return web.json_response(inspect_object(found(request)))


async def list_containers(request: web.Request) -> web.Response:
    """List running containers, or all; filter them by name, label, state and id."""
    try:
        wanted = json.loads(request.query.get("filters") or "{}")
        filters = {key: list(values) for key, values in wanted.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise Refusal(400, "filters: expected an object of lists") from error
    everything = flag(request, "all") or "status" in filters
    shown = [item for item in request.app[ENGINE].all() if everything or item.state == "running"]
    return web.json_response([_line(item) for item in shown if _matches(item, filters)])


def _matches(container: Container, filters: dict[str, list[object]]) -> bool:
    return all(
        any(_has(container, key, str(value)) for value in values)
        for key, values in filters.items()
        if key in ("id", "name", "status", "label")
    )


def _has(container: Container, key: str, value: str) -> bool:
    labels = container.asked.labels or {}
    if key == "label":
        name, equals, wanted = value.partition("=")
        return name in labels and (not equals or labels[name] == wanted)
    if key == "id":
        return container.id.startswith(value)
    return value.removeprefix("/") in container.name if key == "name" else container.state == value


async def prune(request: web.Request) -> web.Response:
    engine = request.app[ENGINE]
    ended = [item for item in engine.all() if item.state != "running"]
    for item in ended:
        await engine.remove(item, force=True)
    return web.json_response({"ContainersDeleted": [item.id for item in ended], "SpaceReclaimed": 0})


async def logs(request: web.Request) -> web.StreamResponse:
    """Send the output of the main command, only its end if there is much; with `follow`, until the command ends."""
    container = found(request)
    response = web.StreamResponse(headers={"Content-Type": RAW if container.asked.terminal else FRAMED})
    await response.prepare(request)
    pieces = [piece for piece in container.main.output.kept if _is_wanted(request, piece)]
    with container.main.output.follow(past=False) if flag(request, "follow") else nullcontext() as follower:
        for piece in _tail(request, pieces):
            await response.write(_sent(container, piece))
        if follower is not None:
            async for piece in follower:
                if _is_wanted(request, piece):
                    await response.write(_sent(container, piece))
    return response


def _tail(request: web.Request, pieces: list[Piece]) -> list[Piece]:
    """Return what to send for `tail`: the last lines of all pieces."""
    asked = request.query.get("tail", "all")
    if not asked.isdigit():
        return pieces
    left, sent = int(asked), list[Piece]()
    for stream, data in reversed(pieces):
        if not left:
            break
        lines = [line for line in re.split(rb"(?<=\n)", data) if line][-left:]
        sent.append((stream, b"".join(lines)))
        left -= len(lines)
    return sent[::-1]


def _is_wanted(request: web.Request, piece: Piece) -> bool:
    return flag(request, piece[0])


def _sent(container: Container, piece: Piece) -> bytes:
    return piece[1] if container.asked.terminal else frame(piece)


async def attach(request: web.Request) -> web.Response:
    """Attach to the main command, also before it is started."""
    container = found(request)
    main = request.app[ENGINE].next_main(container)

    async def output(follower: Follower) -> AsyncIterator[bytes]:
        async for piece in follower:
            if _is_wanted(request, piece):
                yield _sent(container, piece)

    async def feed(data: bytes) -> None:
        await main.started.wait()
        assert main.process is not None
        await main.process.write(data)

    async def close() -> None:
        await main.started.wait()
        assert main.process is not None
        if not container.asked.terminal:
            await main.process.close_input()

    given, framed = flag(request, "stdin") and container.asked.stdin, not container.asked.terminal
    with main.output.follow(past=flag(request, "logs")) as follower:
        return await hijack(request, output(follower), feed if given else None, close if given else None, framed=framed)


async def resize(request: web.Request) -> web.Response:
    rows, columns = (whole(request, name, 0, least=0, most=10_000) for name in ("h", "w"))
    process = found(request).main.process
    if process is not None and rows and columns:
        await process.resize(rows, columns)
    return web.Response()


async def rename(request: web.Request) -> web.Response:
    container, name = found(request), request.query.get("name", "").removeprefix("/")
    if not name or any(item.name == name for item in request.app[ENGINE].all()):
        raise Refusal(409, f"the name {name!r} is in use, or empty")
    container.name = name
    return web.Response(status=204)


def inspect_object(container: Container) -> JsonObject:
    """Return the container as `docker inspect` shows it."""
    main, asked, held = container.main, container.asked, container.held
    argv = [*argv_of(asked.entrypoint), *argv_of(asked.command)] or list(held.default_command)
    return {
        "Id": container.id,
        "Name": f"/{container.name}",
        "Created": container.created.isoformat(),
        "Path": argv[0] if argv else "",
        "Args": argv[1:],
        "Image": image_id(asked.image),
        "Driver": "hub",
        "Platform": "linux",
        "RestartCount": 0,
        "State": {
            "Status": container.state,
            "Running": container.state == "running",
            "Paused": False,
            "Restarting": False,
            "OOMKilled": held.state == "out_of_memory",
            "Dead": False,
            "Pid": main.process.pid if main.process is not None and main.runs else 0,
            "ExitCode": main.exit_code or 0,
            "Error": held.reason,
            "StartedAt": _time(main.began),
            "FinishedAt": _time(main.finished),
        },
        "Config": {
            "Hostname": container.id[:12],
            "User": asked.user or "",
            "Image": asked.image,
            "Cmd": list(argv_of(asked.command)) or None,
            "Entrypoint": list(argv_of(asked.entrypoint)) or None,
            "Env": asked.env or [],
            "WorkingDir": asked.cwd or "",
            "Labels": asked.labels or {},
            "Tty": asked.terminal,
            "OpenStdin": asked.stdin,
        },
        "HostConfig": {
            "NetworkMode": "default",
            "AutoRemove": bool(asked.host and asked.host.auto_remove),
            "LogConfig": {"Type": "json-file", "Config": {}},
        },
        "NetworkSettings": {"Ports": container.ports.told(), "Networks": {}, "IPAddress": ""},
        "Mounts": container.folders.told(),
    }


def _line(container: Container) -> JsonObject:
    """Return the container as `docker ps` shows it."""
    return {
        "Id": container.id,
        "Names": [f"/{container.name}"],
        "Image": container.asked.image,
        "ImageID": image_id(container.asked.image),
        "Command": " ".join((*argv_of(container.asked.entrypoint), *argv_of(container.asked.command))),
        "Created": int(container.created.timestamp()),
        "State": container.state,
        "Status": f"Exited ({container.main.exit_code or 0})" if container.state == "exited" else container.state,
        "Ports": container.ports.listed(),
        "Labels": container.asked.labels or {},
        "NetworkSettings": {"Networks": {}},
        "Mounts": container.folders.told(),
    }


def image_id(name: str) -> str:
    """Return an image id, which clients require.

    It is made from the name, because the image itself is resolved only when a container starts.
    """
    return f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def _time(at: datetime | None) -> str:
    return at.isoformat().replace("+00:00", "Z") if at is not None else NEVER


def add_containers(app: web.Application, base: str) -> None:
    """Add the routes. Fixed paths come before `{container}`, which would match them too."""
    one = f"{base}/containers/{{container}}"
    app.router.add_post(f"{base}/containers/create", create)
    app.router.add_get(f"{base}/containers/json", list_containers)
    app.router.add_post(f"{base}/containers/prune", prune)
    app.router.add_get(f"{one}/json", inspect)
    app.router.add_get(f"{one}/logs", logs)
    app.router.add_delete(one, remove)
    for name, handler in {
        "start": start, "stop": stop, "restart": restart, "kill": kill, "wait": wait, "attach": attach,
        "resize": resize, "rename": rename,
    }.items():  # fmt: skip
        app.router.add_post(f"{one}/{name}", handler)
