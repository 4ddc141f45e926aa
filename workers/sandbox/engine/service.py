"""Runs the daemon from start to end."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from .. import agent_python
from ..errors import Unavailable
from .daemon import Daemon, Options
from .files import own_namespace
from .host import own_identity, usable_tree
from .peers import finish, process_end
from .podman import open_podman
from .wire import engine_socket

Say = Callable[[str], None]


def listen(path: Path, user: int) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.unlink(missing_ok=True)
    listener = engine_socket()
    listener.bind(str(path))
    os.chown(path, user, -1)
    path.chmod(0o600)
    listener.listen(128)
    listener.setblocking(False)
    return listener


@contextlib.contextmanager
def only_one(root: Path) -> Iterator[None]:
    """Hold a lock on the daemon's folder.

    Raises Unavailable if another daemon has it: each would end the other's containers.
    """
    with (root / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Unavailable(f"another daemon uses {root}", "give this one a --socket elsewhere") from error
        yield


async def run(options: Options, say: Say) -> None:
    """Run the daemon until SIGTERM, SIGINT or the end of podman's service. Raises Unavailable."""
    own_identity()
    tree = usable_tree()
    own_namespace()
    root = options.root
    root.mkdir(parents=True, exist_ok=True, mode=0o711)
    runtime = options.runtime or ("runc" if tree.driver == "v1" else None)  # crun refuses hybrid hierarchies
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(only_one(root))
        threads = stack.enter_context(ThreadPoolExecutor(4, "files"))
        podman, process = await stack.enter_async_context(open_podman(root / "podman", runtime))
        for name in ("boxes", "programs"):
            shutil.rmtree(root / name, ignore_errors=True)
        daemon = Daemon(
            replace(options, runtime=runtime),
            tree,
            podman,
            agent_python.agent_python(root),
            threads,
        )
        stack.callback(daemon.remove_groups)
        await daemon.sweep()
        daemon.prepare()
        listener = stack.enter_context(listen(options.socket, options.user))
        stack.callback(options.socket.unlink, True)
        say(f"engine ready: {daemon.hello.engine}, {daemon.hello.limits}, at {options.socket}")
        accepting = asyncio.create_task(daemon.accept(listener))
        await stopped(process.pid)
        accepting.cancel()
        for task in daemon.tasks:
            task.cancel()
        await asyncio.gather(*daemon.tasks, return_exceptions=True)
        if process.poll() is not None:
            raise Unavailable("podman's service has ended", "start the engine again")


async def stopped(service: int) -> None:
    """Wait for a signal or the end of the engine's service."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = process_end(service)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, finish, over)
    await over
