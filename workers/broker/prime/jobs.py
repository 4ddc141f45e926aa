"""Report which background jobs have ended, for many jobs in one request.

A job is a shell that the client itself starts: it leaves its exit status in /tmp/job_ID.exit. Since release 0.5 it also
leaves its process id, which distinguishes a job that died without a status from one that is still running.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import BaseModel, Field, StringConstraints

from workers.broker.bodies import read_json
from workers.broker.interface import Held, NotThere
from workers.broker.prime.service import SERVICE
from workers.sandbox import FileRefused, SandboxError

EXIT_LENGTH = 64
LOOK_S = 20.0
# Prints "lost" if the pid now belongs to no process or another one and no exit status was written meanwhile.
IS_LOST = (
    'p=$(cat "$1" 2>/dev/null) && ! grep -qF "$2" "/proc/$p/cmdline" 2>/dev/null && ! grep -qs . "$2" && echo lost'
)
Id = Annotated[str, StringConstraints(max_length=256)]


class Job(BaseModel):
    sandbox_id: Id
    job_id: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{8}$")]


class JobsRequest(BaseModel):
    jobs: Annotated[list[Job], Field(min_length=1, max_length=100)]


class _Failed(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def job_statuses(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    jobs = (await read_json(request, JobsRequest)).jobs
    found = await asyncio.gather(
        *(_status(service.session.find(job.sandbox_id), job) for job in jobs), return_exceptions=True
    )
    statuses: list[JsonObject] = []
    errors: list[JsonObject] = []
    for job, status in zip(jobs, found, strict=True):
        names: JsonObject = {"sandbox_id": job.sandbox_id, "job_id": job.job_id}
        if isinstance(status, _Failed):
            errors.append({**names, "code": status.code, "message": str(status)})
        elif isinstance(status, BaseException):
            raise status
        else:
            statuses.append({**names, "completed": status is not None, "exit_code": status})
    return web.json_response({"statuses": statuses, "errors": errors})


async def _status(held: Held | None, job: Job) -> int | None:
    """Return the job's exit status, or None while it runs. Raises _Failed."""
    if held is None:
        raise _Failed("NOT_FOUND", f"Sandbox {job.sandbox_id} not found")
    try:
        if (status := await _exit_status(held, job)) is not None:
            return status
        if await _is_lost(held, job):
            raise _Failed("RUNTIME_ERROR", f"job {job.job_id} ended without an exit status; was it killed?")
    except NotThere as error:
        raise _Failed("NOT_RUNNING", str(error)) from error
    except SandboxError as error:
        raise _Failed("RUNTIME_ERROR", str(error)) from error
    return await _exit_status(held, job)


async def _exit_status(held: Held, job: Job) -> int | None:
    try:
        data, _ = await held.window(f"/tmp/job_{job.job_id}.exit", 0, EXIT_LENGTH)  # noqa: S108  a path in the sandbox
    except FileRefused:
        return None
    text = data.decode(errors="replace").strip()
    return int(text) if text.isascii() and text.isdigit() else None


async def _is_lost(held: Held, job: Job) -> bool:
    pid, status = f"/tmp/job_{job.job_id}.launch/pid", f"/tmp/job_{job.job_id}.exit"  # noqa: S108
    try:
        await held.window(pid, 0, 1)
    except FileRefused:
        return False  # an older release, which writes no process id
    looked = await held.exec(("/bin/sh", "-c", IS_LOST, "sh", pid, status), timeout=LOOK_S, recorded=False)
    return looked.stdout.strip() == b"lost"
