"""The runner's life: load without an event loop, serve with one, end without waiting for anything that hangs."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import signal
import sys
import threading
import time
from typing import Any

from . import load_error, loading
from .adapters import Adapter
from .forks import end_a_child, new_event_loop
from .frames import Channel
from .service import Service

EXIT_S = 15.0


def main(path: str) -> int:
    """Run to the end; never returns normally, because threads of the environment could keep the process alive."""
    _own_descriptors()
    channel = Channel.connect(path)
    command = channel.receive_blocking()
    if command is None or command.get("type") != "load":
        return 2
    started = time.monotonic()
    gc.disable()  # imports make no garbage to speak of, and looking for it costs a tenth of their time
    try:
        adapter = loading.load(command)
    except load_error.LoadError as error:
        end_a_child(error.__cause__)
        sys.stderr.write(error.trace)
        channel.send_blocking(error.to_frame())
        _leave(1)
    gc.freeze()  # what was loaded stays: later collections need not look at it
    gc.enable()
    channel.send_blocking(hello(adapter, time.monotonic() - started))
    code = _serve(Service(channel, adapter))
    _end_atexit()
    _leave(code)
    return code


def hello(adapter: Adapter, seconds: float) -> dict[str, Any]:
    """The `hello` frame."""
    return {
        "type": "hello",
        "generation": adapter.generation,
        "verifiers": loading.verifiers_version(),
        "python": loading.python_version(),
        "env_class": adapter.env_class,
        "requires_group": adapter.requires_group,
        "provides_advantages": adapter.provides_advantages,
        "in_process_harness": adapter.in_process_harness,
        "load_s": round(seconds, 3),
    }


def _own_descriptors() -> None:
    """An environment that reads its standard input gets an end of file; its prints reach the log line by line."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]


def _serve(service: Service) -> int:
    """Run the loop to the end of the service. `sys.exit()` in environment code leaves the loop: go back in."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))  # the library's own handler would only raise
    signal.signal(signal.SIGINT, lambda *_: None)  # ignored, it would be so in the environment's programs, too
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(service.run())
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as left:
            end_a_child(left)
    error = task.exception()
    if error is not None:
        sys.stderr.write(load_error.trace_of(error))
    return 0 if error is None else 1


def _end_atexit() -> None:
    """Run what the environment registered for its exit, but not for ever."""
    timer = threading.Timer(EXIT_S, os._exit, (0,))
    timer.daemon = True
    timer.start()
    try:
        atexit._run_exitfuncs()
    except BaseException as error:  # noqa: BLE001 - user code at exit may raise anything
        sys.stderr.write(load_error.trace_of(error))


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)
