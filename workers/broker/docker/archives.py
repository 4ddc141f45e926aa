"""Copy files in and out of containers as tar archives (put_archive, get_archive, `docker cp`).

The container's own tar does the work.
"""

from __future__ import annotations

import base64
import json
import posixpath
import stat
from contextlib import suppress
from datetime import UTC, datetime

from aiohttp import web

from workers.broker.docker.containers import found
from workers.broker.docker.running import Running
from workers.broker.interface import Held
from workers.broker.refusals import Refusal
from workers.sandbox import SandboxError

PATH_LIMIT = 4096
STAT_S = 30.0
DIRECTORY, LINK = 1 << 31, 1 << 27  # bits of Go's file modes, which clients read
NO_TAR = "this image has no tar, by which files are copied here"


async def get_archive(request: web.Request) -> web.StreamResponse:
    """Send an archive of a file or directory. HEAD returns only its metadata."""
    held, path = found(request).held, _path(request)
    told = await _stat(held, path)
    headers = {"X-Docker-Container-Path-Stat": base64.b64encode(json.dumps(told).encode()).decode()}
    if request.method == "HEAD":
        return web.Response(headers=headers)
    folder, name = posixpath.split(path.rstrip("/") or "/")
    running = Running()
    argv = ("tar", "-C", folder or "/", "-cf", "-", "--", name or ".")
    response = web.StreamResponse(headers={**headers, "Content-Type": "application/x-tar"})
    with running.output.follow(past=False) as follower:
        await running.start(held, argv, env={}, cwd="/", stdin=False, terminal=None, recorded=False)
        await response.prepare(request)
        async for stream, data in follower:
            if stream == "stdout":
                await response.write(data)
    await running.done.wait()
    if running.exit_code and request.transport is not None:  # the client must not take half an archive for a whole one
        request.transport.close()
    return response


async def put_archive(request: web.Request) -> web.Response:
    """Unpack the request body into an existing directory."""
    held, path = found(request).held, _path(request)
    if not int(str((await _stat(held, path))["mode"])) & DIRECTORY:
        raise Refusal(400, f"{path[:200]} is no directory")
    running = Running()
    await running.start(
        held, ("tar", "-C", path, "-xf", "-"), env={}, cwd="/", stdin=True, terminal=None, recorded=False
    )
    process = running.process
    assert process is not None
    try:
        with suppress(SandboxError):  # tar has ended; its output says why
            async for chunk in request.content.iter_any():
                await process.write(chunk)
    finally:
        await process.close_input()  # also for a client that leaves, or tar would wait for the rest for ever
    await running.done.wait()
    if running.exit_code:
        said = b"".join(data for _, data in running.output.kept).decode(errors="replace")[-500:]
        raise Refusal(501 if running.exit_code == 127 else 400, said.strip() or NO_TAR)
    return web.Response()


async def _stat(held: Held, path: str) -> dict[str, object]:
    """Return the metadata of a path as the Engine API formats it. Raises Refusal, SandboxError."""
    done = await held.exec(("stat", "-c", "%s %f %Y", "--", path), cwd="/", timeout=STAT_S, recorded=False)
    if done.exit_code:
        raise Refusal(404, f"Could not find the file {path[:200]} in the container")
    size, mode, changed = done.stdout.split()[-3:]
    bits = int(mode, 16)
    told = stat.S_IMODE(bits) & 0o777 | (DIRECTORY if stat.S_ISDIR(bits) else 0) | (LINK if stat.S_ISLNK(bits) else 0)
    return {
        "name": posixpath.basename(path.rstrip("/")) or "/",
        "size": int(size),
        "mode": told,
        "mtime": datetime.fromtimestamp(int(changed), UTC).isoformat(),
        "linkTarget": "",
    }


def _path(request: web.Request) -> str:
    path = request.query.get("path", "")
    if not path or "\0" in path or len(path) > PATH_LIMIT:
        raise Refusal(400, "path: name a file or a directory of the container")
    return path if path.startswith("/") else f"/{path}"


def add_archives(app: web.Application, base: str) -> None:
    app.router.add_get(f"{base}/containers/{{container}}/archive", get_archive)  # this adds HEAD too
    app.router.add_put(f"{base}/containers/{{container}}/archive", put_archive)
