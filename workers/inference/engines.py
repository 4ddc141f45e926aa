"""Runs borrow engines here: `async with acquire(...) as engine`. The host's EngineManager owns the processes."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from uuid import uuid4

from envhub.protocol.models.catalog import LocalTarget
from pydantic import ValidationError

from workers.inference.address import EngineAddress
from workers.inference.requests import SOCKET, EngineReply, EngineRequest

Fetch = Callable[[str, str], Awaitable[Path]]  # (url, sha256) -> verified file


class EngineFailed(Exception):
    """The model cannot be served here; `hint` says what to do. busy: it could be served later, when GPUs are free."""

    def __init__(self, message: str, hint: str = "", *, busy: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.busy = busy


async def fetch_model(target: LocalTarget, models: Path, fetch: Fetch) -> Path:
    """Fetch a model's directory below `models`, completely or not at all. Raises EngineFailed for a bad file name."""
    directory = models / target.fingerprint
    with suppress(FileNotFoundError):
        os.utime(directory)  # in use: housekeeping leaves it alone
        return directory
    # unique to this call, because serve runs share a process
    unfinished = models / f".{target.fingerprint}.{uuid4().hex}"
    try:
        await _gather(target, unfinished, fetch)
        with suppress(OSError):  # another run was faster
            unfinished.rename(directory)
    finally:
        await asyncio.to_thread(shutil.rmtree, unfinished, True)
    return directory


async def _gather(target: LocalTarget, folder: Path, fetch: Fetch) -> None:
    for name, sha256 in target.files.items():
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts:
            raise EngineFailed(f"the model has a file named {name!r}")
        path = folder / pure
        path.parent.mkdir(parents=True, exist_ok=True)
        source = await fetch(target.urls[name], sha256)
        try:
            os.link(source, path)
        except OSError:  # the source is on another file system
            await asyncio.to_thread(shutil.copyfile, source, path)


@asynccontextmanager
async def acquire(name: str, target: LocalTarget, *, data: Path, fetch: Fetch) -> AsyncIterator[EngineAddress]:
    """Yield address and key of an engine that serves `target` as `name` during the block. Raises EngineFailed.

    The first use of a model starts its engine, which takes seconds for `torch`, about a minute for `vllm`.
    """
    models = data.absolute() / "models"
    models.mkdir(parents=True, exist_ok=True)
    directory = await fetch_model(target, models, fetch)
    adapter = await fetch_model(target.adapter, models, fetch) if target.adapter else None
    try:
        request = EngineRequest(
            fingerprint=target.fingerprint,
            engine=target.engine,
            directory=directory,
            name=name,
            adapter=adapter,
            gpus=target.gpus,
        )
    except ValidationError as error:
        raise EngineFailed(f"unknown engine {target.engine!r}", "use torch or vllm") from error
    try:
        reader, writer = await asyncio.open_unix_connection(str(data.absolute() / SOCKET))
    except OSError as error:
        raise EngineFailed(f"this worker's engine manager is not running: {error}") from error
    try:
        writer.write(request.model_dump_json().encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
        if not line:
            raise EngineFailed("the engine manager stopped while the model was being started")
        reply = EngineReply.model_validate_json(line)
        if reply.error:
            raise EngineFailed(reply.error, reply.hint, busy=reply.busy)
        yield EngineAddress(reply.base_url, reply.key, reply.gpus)
    finally:
        writer.close()
