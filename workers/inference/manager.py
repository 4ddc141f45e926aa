"""The engines of one host: started when the first run needs one, shared by all runs, ended when idle.

Part of `python -m workers`. Evaluations and serve runs hold references (open connections) and start no process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from envhub.protocol.placing.gpus import Gpu, GpuNeed
from envhub.protocol.runs import EngineCounts
from pydantic import ValidationError

from workers.inference.process import (
    EngineDied,
    EngineProcess,
    free_port,
    torch_command,
    visible_devices,
    vllm_command,
)
from workers.inference.requests import SOCKET, EngineReply, EngineRequest
from workers.inference.split import need_of
from workers.runs.children import Children
from workers.runs.gpu_pool import GpuPool

logger = logging.getLogger(__name__)
START_SECONDS = {"torch": 120.0, "vllm": 900.0}
HOST_HINT = "its operator can see whether disk space, memory, processes or open files ran out"
BUSY_SECONDS = 180.0  # an engine in use is restarted if it does not report healthy for this long


@dataclass(frozen=True)
class EngineSettings:
    """How engines are started on this host."""

    data: Path
    vllm_python: str = ""  # an interpreter that has vLLM; if empty, the engine `vllm` is refused
    vllm_arguments: Sequence[str] = ()
    idle_seconds: float = 300.0
    threads: int = 1


@dataclass
class Engine:
    """One engine and its references. `lock` is held while the process is being started."""

    request: EngineRequest
    references: int = 0
    process: EngineProcess | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    idle: asyncio.TimerHandle | None = None
    gpus: tuple[Gpu, ...] = ()  # of vLLM, on a worker that has GPUs


class EngineManager:
    """Serves requests on `<data>/engines.sock` while the context is open, and ends all engines afterwards."""

    def __init__(self, settings: EngineSettings, children: Children, gpus: GpuPool | None = None) -> None:
        self._gpus = gpus or GpuPool("none")
        self._settings = settings
        self._children = children
        self._engines: dict[tuple[str, ...], Engine] = {}
        self._server: asyncio.Server | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> EngineManager:
        path = self._settings.data.absolute() / SOCKET
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path=str(path))
        path.chmod(0o600)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(e.process.stop() for e in self._engines.values() if e.process is not None))
        await asyncio.gather(*self._ending)

    @property
    def idle_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs of engines that nobody uses; `take_gpus` gives them to whoever needs them.

        None while the driver is silent, since GPUs are not lent then.
        """
        return tuple(gpu for engine in self._idle_engines() for gpu in engine.gpus) if self._gpus.answers else ()

    def counts(self) -> EngineCounts:
        """Return the engines by state."""
        loaded = [engine for engine in self._engines.values() if engine.process is not None]
        idle = sum(engine.idle is not None for engine in loaded)
        starting = sum(engine.process is None and engine.references > 0 for engine in self._engines.values())
        return EngineCounts(starting=starting, serving=len(loaded) - idle, idle=idle)

    async def take_gpus(self, need: GpuNeed) -> tuple[Gpu, ...] | None:
        """Hold GPUs as GpuPool.take does. Idle engines are ended to free theirs, the longest idle first."""
        if not need.fits(gpu.free_mb for gpu in (*self._gpus.free, *self.idle_gpus)):
            return None
        while (taken := self._gpus.take(need)) is None and self._gpus.answers and (idle := self._idle_engines()):
            self._end(idle[0])
            await asyncio.gather(*self._ending)
        return taken

    def _idle_engines(self) -> list[Engine]:
        """Return the idle engines that hold a GPU, the longest idle first."""
        found = [engine for engine in self._engines.values() if engine.gpus and engine.process is not None]
        timers = [(engine.idle.when(), engine) for engine in found if engine.idle is not None]
        return [engine for _, engine in sorted(timers, key=lambda timer: timer[0])]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: answer its request, then hold the reference until it closes or the engine ends."""
        try:
            request = EngineRequest.model_validate_json(await reader.readline())
        except ValidationError as error:
            logger.warning("bad engine request: %s", error)
            writer.close()
            return
        engine = self._take(request)
        try:
            reply = await self._ready(engine)
            writer.write(reply.model_dump_json().encode() + b"\n")
            await writer.drain()
            if engine.process is not None and not reply.error:
                await self._hold(reader, engine.process)
        except ConnectionError:
            pass  # the caller is gone
        finally:
            self._release(engine)
            writer.close()

    async def _hold(self, reader: asyncio.StreamReader, process: EngineProcess) -> None:
        closed, ended = asyncio.create_task(reader.read(1)), asyncio.create_task(process.wait())
        await asyncio.wait([closed, ended], return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not closed.done():
            logger.warning("%s", await process.death())
        for task in (closed, ended):
            task.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await task

    async def _ready(self, engine: Engine) -> EngineReply:
        """Start the engine unless it runs, and return the reply for its user."""
        if engine.request.engine == "vllm" and not self._settings.vllm_python:
            return EngineReply(
                error="this worker has no vLLM",
                hint="set WORKER_VLLM_PYTHON to an interpreter that has it (make test-vllm makes one), or use torch",
            )
        async with engine.lock:
            if engine.process is None or not await usable(engine.process, shared=engine.references > 1):
                if engine.process is not None:
                    await self._stop(engine.process, engine.gpus)
                    engine.process, engine.gpus = None, ()
                if engine.request.engine == "vllm" and self._gpus.known:
                    taken = await self.take_gpus(need := need_of(engine.request, self._gpus.known))
                    if taken is None:
                        return self._without_gpus(need)
                    engine.gpus = taken
                try:
                    engine.process = await self._start(engine.request, engine.gpus)
                except EngineDied as error:
                    return EngineReply(error=str(error), hint=error.hint)
                except OSError as error:
                    return EngineReply(
                        error=f"this host could not start the engine: {error}", hint=HOST_HINT, busy=True
                    )
                finally:
                    if engine.process is None:
                        self._gpus.give_back(engine.gpus)
                        engine.gpus = ()
        address = engine.process.address
        return EngineReply(base_url=address.base_url, key=address.key, gpus=len(engine.gpus))

    def _without_gpus(self, need: GpuNeed) -> EngineReply:
        if need.fits(gpu.memory_mb for gpu in self._gpus.known):
            return EngineReply(
                error=f"the model takes {need.words()}, and this worker has fewer free now",
                hint="try again when another run has ended, or serve the model on another worker",
                busy=True,
            )
        return EngineReply(
            error=f"the model takes {need.words()}, more than this worker has",
            hint="serve it on a worker with more GPUs, or split it over fewer",
        )

    async def _start(self, request: EngineRequest, gpus: Sequence[Gpu]) -> EngineProcess:
        port = free_port()
        if request.engine == "vllm":
            arguments = self._settings.vllm_arguments
            command = vllm_command(request, port, self._settings.vllm_python, arguments, gpus=len(gpus))
        else:
            command = [*torch_command(request, port), "--threads", str(self._settings.threads)]
        home = self._settings.data.absolute() / "engine-home"
        home.mkdir(parents=True, exist_ok=True)
        extra = visible_devices(gpus) if self._gpus.known else {}
        logger.info("starting %s engine for %s", request.engine, request.name)
        process = await EngineProcess.start(command, port, children=self._children, extra=extra, home=home)
        try:
            await process.wait_ready(START_SECONDS[request.engine])
        except BaseException:
            await process.stop()
            raise
        return process

    def _take(self, request: EngineRequest) -> Engine:
        key = (request.fingerprint, request.engine, request.name, str(request.adapter or ""), str(request.gpus))
        engine = self._engines.setdefault(key, Engine(request))
        engine.references += 1
        if engine.idle is not None:
            engine.idle.cancel()
            engine.idle = None
        return engine

    def _release(self, engine: Engine) -> None:
        engine.references -= 1
        if engine.references == 0:
            loop = asyncio.get_running_loop()
            engine.idle = loop.call_later(self._settings.idle_seconds, self._end, engine)

    def _end(self, engine: Engine) -> None:
        """End an engine that was idle for long enough, or whose GPU is needed."""
        if engine.idle is not None:
            engine.idle.cancel()
        process, engine.process, engine.idle = engine.process, None, None
        if process is not None:
            logger.info("ending the idle engine of %s", engine.request.name)
            task = asyncio.create_task(self._stop(process, engine.gpus))
            engine.gpus = ()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _stop(self, process: EngineProcess, gpus: Sequence[Gpu]) -> None:
        """Stop a process and give its GPUs back; they are free only once it is gone."""
        await process.stop()
        self._gpus.give_back(gpus)


async def usable(process: EngineProcess, *, shared: bool) -> bool:
    """Return whether an engine answers.

    One that others use, too, gets more time: a busy engine answers late, and they need it.
    """
    if not shared:
        return await process.healthy()
    with suppress(EngineDied):
        await process.wait_ready(BUSY_SECONDS)
        return True
    return False
