"""The body of a sandbox run: makes the sandbox, answers the hub for it, and lives as long as it does."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from contextlib import AsyncExitStack, suppress
from itertools import takewhile
from weakref import WeakValueDictionary

from aiohttp import web
from envhub.protocol.runs import FailureKind
from envhub.protocol.sandboxes.sandboxes import Done, SandboxPayload, SandboxReport, SandboxState

from workers.broker.interface import Command, Held, NotThere, Session, State, TooMany, Wish
from workers.broker.memory import Memory
from workers.broker.prime import PREFIX, gateway_routes, prime_routes
from workers.broker.use import Use
from workers.images.interface import ImageLacking
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import NotEnforceable, SandboxError

from .api import SandboxApi
from .models import open_models
from .ports import Ports
from .processes import Processes
from .session import OnlyOne, Sessions, open_sessions

LOOK_S = 0.25  # how soon the end of a sandbox is seen
USE_S = 1.0
WAIT_S = 2.0  # after which the log says what it waits for
LOGGED = 200  # characters of a command
_memories: WeakValueDictionary[str, Memory] = WeakValueDictionary()  # by owner: all its sandboxes share one


async def run_sandbox(job: Job) -> None:
    """Hold a sandbox until it ends or the run is cancelled. Raises RunFailed."""
    payload = SandboxPayload.model_validate(job.claim.payload)
    async with (
        open_models(job, payload.models, payload.model_token) as models,
        open_sessions(job, payload.allow_hosts, models, payload.siblings) as sessions,
    ):
        try:
            held = await sessions.own.create(wish_of(payload))
        except TooMany as error:
            raise RunFailed.because(FailureKind.INFRASTRUCTURE, error.code, error.message, error.hint) from error
        except SandboxError as error:
            raise RunFailed.because(FailureKind.LIMIT, error.code, error.message, error.hint) from error
        try:
            await _serve(job, payload, held, sessions)
        finally:
            await held.end()


def wish_of(payload: SandboxPayload) -> Wish:
    """What the broker is asked for."""
    return Wish(
        image=payload.image,
        name=payload.name,
        labels=payload.labels,
        cpus=payload.cpus,
        memory_mb=payload.memory_mb,
        disk_mb=payload.disk_mb,
        lifetime_s=payload.timeout_s,
        idle_s=payload.idle_s,
        env=payload.env,
        start_command=payload.start_command,
        allow_hosts=payload.allow_hosts,
    )


async def _serve(job: Job, payload: SandboxPayload, held: Held, sessions: Sessions) -> None:
    try:
        await _ready(job, held)
    except NotThere as error:
        reason = held.reason or error.message
        cause = error.__cause__
        if isinstance(cause, (ImageLacking, NotEnforceable)):
            raise RunFailed.because(FailureKind.ENVIRONMENT, cause.code, reason[:4000]) from error
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, "sandbox_failed", reason[:4000]) from error
    secret = secrets.token_urlsafe(32)
    async with AsyncExitStack() as stack:
        processes, ports, use = Processes(held), Ports(held), Use(held)
        spent = Spent(held, use, sessions.siblings)
        job.lease.spent_s = spent.seconds
        await use.look()
        stack.push_async_callback(ports.close)
        stack.push_async_callback(processes.close)
        memory = _memories.setdefault(job.claim.owner, Memory())
        api = SandboxApi(held, processes, ports, use, file_bytes=payload.file_bytes, memory=memory).application(secret)
        api.add_subapp(PREFIX, _for_clients(payload, held, sessions, memory))
        runner = web.AppRunner(api, handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, job.settings.serve_host, 0).start()
        host, port = job.settings.serve_address or job.settings.serve_host, runner.addresses[0][1]
        job.lease.log(f"a sandbox of {payload.image} runs, for {held.lifetime_s:.0f} s at most")
        report = SandboxReport(
            state=SandboxState.RUNNING,
            base_url=f"http://{host}:{port}",
            secret=secret,
            cpus=held.cpus,
            memory_mb=held.memory_mb,
            disk_mb=held.disk_mb,
        )
        await _report(job, report)
        await _until_ended(job, held, use, spent)
    await _say_why(job, held)


async def _ready(job: Job, held: Held) -> None:
    """Wait until it runs, and tell the log what it waits for. Raises NotThere."""
    ready = asyncio.create_task(held.ready())
    try:
        await asyncio.wait([ready], timeout=WAIT_S)
        if not ready.done():
            job.lease.log(f"the sandbox waits for {held.waits_for}")
        await ready
    finally:
        ready.cancel()


def _for_clients(payload: SandboxPayload, held: Held, sessions: Sessions, memory: Memory) -> web.Application:
    """What prime-sandboxes is answered: those beside this one, or what is done in this one, which the hub made."""
    if sessions.siblings is not None and payload.siblings is not None:
        allow, origin = payload.allow_hosts, payload.siblings.origin
        return prime_routes(sessions.siblings, run_allows=allow, origin=origin, tunnels=sessions.tunnels)
    return gateway_routes(OnlyOne(held, payload.sandbox_id), memory)


class Spent:
    """The CPU time of a run's own sandbox and of those that a program outside has beside it, as last measured."""

    def __init__(self, held: Held, use: Use, siblings: Session | None) -> None:
        self._uses = {held.id: use}
        self._siblings = siblings

    async def look(self) -> None:
        """Measure those that run."""
        for one in self._siblings.all() if self._siblings is not None else ():
            if one.state is State.RUNNING:
                with suppress(SandboxError):  # it ends
                    await self._uses.setdefault(one.id, Use(one)).look()

    def seconds(self) -> float:
        """Return the sum, with what those that have ended had."""
        return sum(use.cpu_seconds for use in self._uses.values())


async def _until_ended(job: Job, held: Held, use: Use, spent: Spent) -> None:
    looked = time.monotonic()
    last: Command | None = None
    try:
        while not held.state.final:
            await asyncio.sleep(LOOK_S)
            last = _log_commands(job, held, last)
            if time.monotonic() - looked > USE_S:
                looked = time.monotonic()
                await use.look()
                await spent.look()
                if use.memory_mb is not None:
                    job.lease.progress(use.memory_mb, held.memory_mb, "MB", use.note)
    finally:
        _log_commands(job, held, last)


def _log_commands(job: Job, held: Held, last: Command | None) -> Command | None:
    """One line for each command that has ended after `last`, in the log of the run; the last one now."""
    fresh = list(takewhile(lambda command: command is not last, reversed(held.commands)))
    for command in reversed(fresh):
        line = shlex.join(command.argv).replace("\n", " ")
        shown = line if len(line) <= LOGGED else line[:LOGGED] + "…"
        how = "timed out" if command.timed_out else f"exit {command.exit_code}"
        job.lease.log(f"{command.began:%H:%M:%S} {how} in {command.seconds:.2f} s: {shown}")
    return fresh[0] if fresh else last


async def _report(job: Job, report: SandboxReport) -> None:
    await job.run.post(f"/runs/{job.run.run_id}/sandbox", report, Done)


async def _say_why(job: Job, held: Held) -> None:
    """Tell the hub how it has ended. Raises RunFailed for an end that nobody asked for."""
    reason = held.reason[:2000]
    await _report(job, SandboxReport(state=SandboxState(held.state.value), reason=reason))
    job.lease.log(f"the sandbox has ended ({held.state}): {reason}")
    if held.state is State.OUT_OF_MEMORY:
        raise RunFailed.because(
            FailureKind.LIMIT, "sandbox_out_of_memory", reason or "out of memory", "ask for more with --memory"
        )
    if held.state is State.FAILED and held.by_host:
        raise RunFailed.because(
            FailureKind.INFRASTRUCTURE, "sandbox_gone", reason or "the host ended it", "make a new one"
        )
    if held.state is State.FAILED:
        raise RunFailed.because(
            FailureKind.POLICY, "sandbox_ended_itself", reason, "a command killed all that ran in it; make a new one"
        )
