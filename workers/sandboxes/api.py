"""The API of one sandbox, which the hub calls: commands, files, what it uses. Processes and ports have their own."""

from __future__ import annotations

import time

from aiohttp import web
from envhub.protocol.sandboxes.sandboxes import (
    MOST_COMMANDS,
    CommandList,
    CommandView,
    Done,
    ExecRequest,
    ExecResult,
)

from workers.broker.interface import Command, Held
from workers.broker.memory import Memory, body_size
from workers.broker.use import Use
from workers.runs.broken_answers import whole_or_closed

from .answers import Refused, answer, guard, read
from .ports import Ports
from .process_api import ProcessApi
from .processes import Processes

BODY_LIMIT = 4 * 1024**2  # of every request but a file
WINDOW = 1024**2  # of a file that is read
OUTPUT_LIMIT = 1024**2  # of each stream of a command


class SandboxApi:
    """Handlers over one sandbox. `file_bytes` is the most of one upload; `memory` bounds all files of its owner."""

    def __init__(
        self, held: Held, processes: Processes, ports: Ports, use: Use, *, file_bytes: int, memory: Memory
    ) -> None:
        self._held = held
        self._processes = processes
        self._ports = ports
        self._use = use
        self._file_bytes = file_bytes
        self._memory = memory

    def application(self, secret: str) -> web.Application:
        """The aiohttp application for callers who know the secret."""
        app = web.Application(client_max_size=BODY_LIMIT, middlewares=[guard(secret)])
        app.add_routes(
            [
                web.post("/exec", self.exec),
                web.get("/files", self.get_file),
                web.put("/files", self.put_file),
                web.get("/log", self.log),
                web.get("/stats", self.stats),
                web.get("/commands", self.commands),
                *ProcessApi(self._processes).routes(),
                web.route("*", r"/ports/{port:\d{1,5}}/{path:.*}", self._ports.handle),
            ]
        )
        return app

    async def exec(self, request: web.Request) -> web.Response:
        """One command to its end."""
        wanted = await read(request, ExecRequest)
        began = time.monotonic()
        result = await self._held.exec(
            wanted.words,
            env=wanted.env,
            cwd=wanted.cwd,
            timeout=wanted.timeout_s,
            stdin=wanted.stdin.encode(),
            output_limit=OUTPUT_LIMIT,
        )
        return answer(
            ExecResult(
                stdout=result.stdout.decode(errors="replace"),
                stderr=result.stderr.decode(errors="replace"),
                exit_code=result.exit_code,
                seconds=time.monotonic() - began,
                truncated=result.truncated,
                timed_out=result.timed_out,
            )
        )

    async def put_file(self, request: web.Request) -> web.Response:
        """Write a file."""
        path, mode = _path(request), request.query.get("mode", "644")
        if not (len(mode) <= 4 and all(digit in "01234567" for digit in mode)):
            raise Refused(422, "invalid", "mode must be octal, such as 755", fields={"mode": mode[:20]})
        async with self._memory.hold(body_size(request, self._file_bytes)):
            content = await _content(request, self._file_bytes)
            await self._held.put(path, content, mode=int(mode, 8) & 0o777)
        return answer(Done())

    async def get_file(self, request: web.Request) -> web.StreamResponse:
        """Read a file, a window at a time: its size when the reading began."""
        async with self._memory.hold(WINDOW):
            return await self._windows(request, _path(request))

    async def _windows(self, request: web.Request, path: str) -> web.StreamResponse:
        piece, size = await self._held.window(path, 0, WINDOW)
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = size
        await response.prepare(request)
        done = 0
        with whole_or_closed(request):
            while piece := piece[: size - done]:
                await response.write(piece)
                done += len(piece)
                if done < size:
                    piece, _ = await self._held.window(path, done, WINDOW)
        if done < size and request.transport is not None:  # it has shrunk: break off, so that nobody takes it for whole
            request.transport.close()
        return response

    async def log(self, request: web.Request) -> web.Response:
        """Of its start command."""
        return web.Response(body=self._held.log(), content_type="application/octet-stream")

    async def stats(self, request: web.Request) -> web.Response:
        """What it uses."""
        return answer(self._use.now)

    async def commands(self, request: web.Request) -> web.Response:
        """The last ones."""
        return answer(CommandList(items=tuple(map(_command, list(self._held.commands)[-MOST_COMMANDS:]))))


def _command(command: Command) -> CommandView:
    return CommandView(
        argv=command.argv,
        cwd=command.cwd,
        began=command.began,
        seconds=command.seconds,
        exit_code=command.exit_code,
        output=command.output,
        truncated=command.truncated,
        timed_out=command.timed_out,
    )


async def _content(request: web.Request, most: int) -> bytes:
    content = bytearray()
    async for piece in request.content.iter_any():
        content += piece
        if len(content) > most:
            raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=len(content))
    return bytes(content)


def _path(request: web.Request) -> str:
    path = request.query.get("path", "")
    if not path.startswith("/") or "\0" in path or len(path) > 4096:
        raise Refused(422, "invalid", "path must be an absolute path in the sandbox", fields={"path": path[:200]})
    return path
