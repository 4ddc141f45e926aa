"""The exec routes, which `docker exec` calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from aiohttp import web

from workers.broker.bodies import read_json, whole
from workers.broker.docker.containers import ENGINE, found
from workers.broker.docker.hijack import hijack
from workers.broker.docker.output import Follower, frame
from workers.broker.docker.wishes import ExecRequest, StartRequest, argv_of, check_user, variables
from workers.broker.refusals import Refusal


async def create(request: web.Request) -> web.Response:
    asked = await read_json(request, ExecRequest)
    check_user(asked.user)
    variables(asked.env)  # refused here, because the start's answer begins before the command
    made = request.app[ENGINE].new_exec(found(request), asked)
    return web.json_response({"Id": made.id}, status=201)


async def start(request: web.Request) -> web.Response:
    """Start an exec; its streams take over the connection unless it is detached."""
    engine = request.app[ENGINE]
    made, asked = engine.find_exec(request.match_info["exec"]), await read_json(request, StartRequest)
    running = made.running
    if running.began is not None:
        raise Refusal(409, f"exec {made.id} has already started")
    size = (asked.size[0], asked.size[1]) if asked.size and all(asked.size) else None
    if asked.detach:
        await engine.start_exec(made, size)
        return web.Response()

    async def feed(data: bytes) -> None:
        if running.process is not None:
            await running.process.write(data)

    async def output(follower: Follower) -> AsyncIterator[bytes]:
        async for piece in follower:
            yield piece[1] if made.asked.terminal else frame(piece)

    async def close() -> None:
        if running.process is not None and not made.asked.terminal:
            await running.process.close_input()

    given = made.asked.stdin
    with running.output.follow(past=False) as follower:
        return await hijack(
            request,
            output(follower),
            feed if given else None,
            close if given else None,
            framed=not made.asked.terminal,
            begin=partial(engine.start_exec, made, size),
        )


async def inspect(request: web.Request) -> web.Response:
    made = request.app[ENGINE].find_exec(request.match_info["exec"])
    running, argv = made.running, argv_of(made.asked.command)
    return web.json_response(
        {
            "ID": made.id,
            "ContainerID": made.container.id,
            "Running": running.runs,
            "ExitCode": running.exit_code,
            "Pid": running.process.pid if running.process is not None else 0,
            "OpenStdin": made.asked.stdin,
            "ProcessConfig": {"entrypoint": argv[0], "arguments": list(argv[1:]), "tty": made.asked.terminal},
        }
    )


async def resize(request: web.Request) -> web.Response:
    rows, columns = (whole(request, name, 0, least=0, most=10_000) for name in ("h", "w"))
    process = request.app[ENGINE].find_exec(request.match_info["exec"]).running.process
    if process is not None and rows and columns:
        await process.resize(rows, columns)
    return web.Response()


def add_executions(app: web.Application, base: str) -> None:
    app.router.add_post(f"{base}/containers/{{container}}/exec", create)
    app.router.add_post(f"{base}/exec/{{exec}}/start", start)
    app.router.add_post(f"{base}/exec/{{exec}}/resize", resize)
    app.router.add_get(f"{base}/exec/{{exec}}/json", inspect)
