"""Command sessions, by which releases from 0.3 on run commands, and all releases in sandboxes requested as VMs.

A Start without a name runs a command for its caller: it ends with the call. With a name it starts a session that lives
on and that Start (again), Connect, SendInput and SendSignal find by its name.
"""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable

from aiohttp import web

from workers.broker.interface import Held
from workers.broker.memory import MEMORY, Memory
from workers.broker.prime import messages
from workers.broker.prime.commands import checked_argv
from workers.broker.prime.connect import (
    STREAM,
    UNARY,
    RpcError,
    frame,
    last_frame,
    read_framed,
    read_unary,
    seconds_left,
    unary_error,
)
from workers.broker.prime.live import LiveProcess
from workers.broker.prime.messages import Selector, StartRequest
from workers.broker.prime.refusals import refusal_of
from workers.broker.prime.service import SERVICE, Begun, Service
from workers.broker.prime.wishes import checked_env

logger = logging.getLogger(__name__)
SESSIONS = 256  # known per sandbox, ended ones included
NAME_LENGTH = 100
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
Events = Callable[[web.Request, Service], AsyncGenerator[bytes, None]]
Act = Callable[[Service, Held, bytes], Awaitable[bytes]]


def add_sessions(app: web.Application, base: str) -> None:
    """Add the routes below `base`, the address of a sandbox."""
    service = f"{base}/command_session.CommandSession"
    for name, events in (("Start", _start), ("Connect", _connect)):
        app.router.add_post(f"{service}/{name}", _streamed(events))
    for name, act in (("SendInput", _send_input), ("SendSignal", _send_signal), ("List", _list), ("Update", _update)):
        app.router.add_post(f"{service}/{name}", _answered(act))


def _streamed(events: Events) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": STREAM})
        stream = events(request, request.app[SERVICE])
        try:
            async with contextlib.aclosing(stream):
                async for message in stream:
                    if not response.prepared:
                        await response.prepare(request)
                    await response.write(frame(message))
            last = last_frame()
        except web.HTTPException:
            raise
        except ConnectionError:  # the client has disconnected
            return response
        except Exception as error:
            if refusal_of(error) is None:
                logger.exception("a command session's stream failed")
                error = RpcError("internal", "the worker failed to answer this; its log says why")
            last = last_frame(error)
        if not response.prepared:
            await response.prepare(request)
        await response.write(last)
        await response.write_eof()
        return response

    return handle


def _answered(act: Act) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        service = request.app[SERVICE]
        try:
            data = await read_unary(request)
            return web.Response(body=await act(service, service.living(request), data), content_type=UNARY)
        except web.HTTPException:
            raise
        except Exception as error:
            if refusal_of(error) is None:
                raise
            return unary_error(error)

    return handle


async def _start(request: web.Request, service: Service) -> AsyncGenerator[bytes, None]:
    held = service.living(request)
    asked = messages.read_start(await read_framed(request))
    argv = await _argv(service, held, asked)
    begun = service.begun(held)
    memory = request.app[MEMORY]
    live = _session(begun, asked, memory) if asked.uuid else LiveProcess(asked, memory)
    seconds = seconds_left(request)
    try:
        process = await live.launch(held, argv, None if asked.uuid else seconds)
        if not asked.uuid:
            begun.calls[process.pid] = live
        # Five seconds longer than the command's limit, so that the command ends first and its output up to there is
        # sent.
        async with contextlib.aclosing(live.messages(seconds + (0 if asked.uuid else 5))) as events:
            async for message in events:
                yield message
    finally:
        if not asked.uuid:
            if live.process is not None:
                begun.calls.pop(live.process.pid, None)
            await live.kill()


async def _connect(request: web.Request, service: Service) -> AsyncGenerator[bytes, None]:
    held = service.living(request)
    live = _find(service.begun(held), messages.read_connect(await read_framed(request)))
    async with contextlib.aclosing(live.messages(seconds_left(request))) as events:
        async for message in events:
            yield message


async def _send_input(service: Service, held: Held, data: bytes) -> bytes:
    asked = messages.read_input(data)
    live = _find(service.begun(held), asked.session)
    if live.ended or live.process is None:
        raise RpcError("failed_precondition", "the process has ended")
    if live.first_time(asked.uuid):
        await live.process.write(asked.data)
    return b""


async def _send_signal(service: Service, held: Held, data: bytes) -> bytes:
    asked = messages.read_signal(data)
    live = _find(service.begun(held), asked.session)
    if asked.number not in SIGNALS:
        raise RpcError("invalid_argument", f"signal {asked.number} is not sent; TERM and KILL are")
    if not live.ended and live.process is not None and live.first_time(asked.uuid):
        await live.process.signal(asked.number)
    return b""


async def _update(service: Service, held: Held, data: bytes) -> bytes:
    selector, terminal = messages.read_update(data)
    live = _find(service.begun(held), selector)
    if terminal and live.process is not None and not live.ended:
        await live.process.resize(*terminal)
    return b""


async def _list(service: Service, held: Held, data: bytes) -> bytes:
    begun = service.begun(held)
    living = [live for live in (*begun.live.values(), *begun.calls.values()) if not live.ended]
    return messages.listed({live.process.pid: live.request for live in living if live.process is not None})


async def _argv(service: Service, held: Held, asked: StartRequest) -> tuple[str, ...]:
    """Return the command to run: clients ask for /bin/bash whatever shell the image has."""
    checked_argv(asked.argv, asked.cwd, asked.user)
    checked_env(asked.env)
    if asked.argv[0] == "/bin/bash":
        return (await service.shell(held), *asked.argv[1:])
    return asked.argv


def _session(begun: Begun, asked: StartRequest, memory: Memory) -> LiveProcess:
    """Return the session with this name, or a new one. Raises RpcError."""
    if len(asked.uuid) > NAME_LENGTH:
        raise RpcError("invalid_argument", "the session's name is too long")
    live = begun.live.get(asked.uuid)
    if live is None:
        if len(begun.live) >= SESSIONS:
            oldest = next((name for name, other in begun.live.items() if other.ended), None)
            if oldest is None:
                raise RpcError("resource_exhausted", f"{SESSIONS} processes of this sandbox are open; end some first")
            begun.live.pop(oldest).forget()
        live = begun.live[asked.uuid] = LiveProcess(asked, memory)
    elif live.request != asked:
        raise RpcError("failed_precondition", "another command was started under this name")
    return live


def _find(begun: Begun, selector: Selector) -> LiveProcess:
    live = begun.live.get(selector.uuid) if selector.uuid else begun.calls.get(selector.pid)
    if live is None and selector.pid:
        live = next((it for it in begun.live.values() if it.process and it.process.pid == selector.pid), None)
    if live is None:
        raise RpcError("not_found", "no such session; its end is known only for a while")
    return live
