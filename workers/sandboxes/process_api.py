"""The routes of processes: start, follow, feed, signal."""

from __future__ import annotations

from contextlib import aclosing

from aiohttp import web
from envhub.protocol.sandboxes.sandboxes import (
    Done,
    InputTaken,
    ProcessList,
    ProcessRequest,
    SignalRequest,
    TerminalSize,
)

from workers.broker.interface import InputUnread

from .answers import answer, number, read
from .processes import Processes

SIGKILL = 9
INPUT_S = 20.0  # seconds to wait for a program that does not read, below the time limits of clients


class ProcessApi:
    """Handlers over the processes of one sandbox."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def routes(self) -> list[web.RouteDef]:
        """Below the sandbox's own."""
        one = r"/processes/{pid:\d{1,9}}"
        return [
            web.get("/processes", self.list),
            web.post("/processes", self.start),
            web.get(one, self.show),
            web.delete(one, self.kill),
            web.get(f"{one}/output", self.output),
            web.post(f"{one}/input", self.input),
            web.post(f"{one}/signal", self.signal),
            web.post(f"{one}/resize", self.resize),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """All of them."""
        return answer(ProcessList(items=self._processes.views()))

    async def start(self, request: web.Request) -> web.Response:
        """One more."""
        kept = await self._processes.start(await read(request, ProcessRequest))
        return answer(kept.view)

    async def show(self, request: web.Request) -> web.Response:
        """One of them."""
        return answer(self._processes.get(_pid(request)).view)

    async def kill(self, request: web.Request) -> web.Response:
        """The end of one; of one that has ended it is no error."""
        kept = self._processes.get(_pid(request))
        if kept.end is None and kept.process is not None:
            await kept.process.signal(SIGKILL)
        return answer(Done())

    async def output(self, request: web.Request) -> web.StreamResponse:
        """Events by the line."""
        kept = self._processes.get(_pid(request))
        after, wait = number(request, "after", 0), request.query.get("wait", "1") not in {"0", "false"}
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        async with aclosing(kept.follow(after, wait=wait)) as events:
            async for event in events:
                await response.write(event.model_dump_json().encode() + b"\n")
        await response.write_eof()
        return response

    async def input(self, request: web.Request) -> web.Response:
        """Bytes for its standard input, and with `end` the end of it.

        With `partial`, the answer is how many bytes a program that reads slowly has taken; the rest comes again.
        """
        process = self._processes.live(_pid(request))
        data = await request.read()
        try:
            if data and _given(request, "partial"):
                await process.write(data, INPUT_S)
            elif data:
                await process.write(data)
        except InputUnread as error:
            if not _given(request, "partial"):
                raise
            return answer(InputTaken(bytes=error.taken))
        if _given(request, "end"):
            await process.close_input()
        return answer(InputTaken(bytes=len(data)))

    async def signal(self, request: web.Request) -> web.Response:
        """By its number."""
        process = self._processes.live(_pid(request))
        await process.signal((await read(request, SignalRequest)).number)
        return answer(Done())

    async def resize(self, request: web.Request) -> web.Response:
        """Of its terminal."""
        process = self._processes.live(_pid(request))
        size = await read(request, TerminalSize)
        await process.resize(size.rows, size.columns)
        return answer(Done())


def _given(request: web.Request, name: str) -> bool:
    return request.query.get(name, "0") in {"1", "true"}


def _pid(request: web.Request) -> int:
    return int(request.match_info["pid"])
