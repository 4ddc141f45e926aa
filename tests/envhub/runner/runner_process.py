"""Runs the runner as the worker does: a process of some interpreter, a unix socket, the frames of the wire.

Its interpreter has imported before what takes seconds: see prepared.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runner import (
    EVENTS,
    Describe,
    Described,
    Event,
    Fatal,
    Group,
    GroupDone,
    Hello,
    Load,
    Policy,
    RolloutDone,
)

RUNNER = Path(__file__).resolve().parents[3] / "sdk" / "envhub" / "runner"
PACKAGES = Path(__file__).resolve().parent / "packages"


@functools.cache
def prepared(python: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Where an interpreter takes requests for runners, and it. It ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = str(Path(__file__).with_name("prepared.py"))
    environment = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1"}
    with theirs:
        descriptor = theirs.fileno()
        process = subprocess.Popen([python, script, str(descriptor)], env=environment, pass_fds=[descriptor])
    return ours, process


@dataclass
class Process:
    """A runner that a prepared interpreter started."""

    pid: int
    output: asyncio.StreamReader
    _report: asyncio.StreamReader

    async def wait(self) -> int:
        """Its exit status, once."""
        return int(await self._report.readline())


async def start_prepared(python: str, environment: dict[str, str]) -> Process:
    """Start a runner."""
    (output, output_end), (report, report_end) = os.pipe(), os.pipe()
    socket.send_fds(prepared(python)[0], [json.dumps(environment).encode()], [output_end, report_end])
    os.close(output_end)
    os.close(report_end)
    told = await read_end(report)
    return Process(int(await told.readline()), await read_end(output), told)


async def read_end(descriptor: int) -> asyncio.StreamReader:
    """What comes out of a pipe."""
    reader = asyncio.StreamReader()
    protocol = functools.partial(asyncio.StreamReaderProtocol, reader)
    await asyncio.get_running_loop().connect_read_pipe(protocol, os.fdopen(descriptor, "rb"))
    return reader


class RunnerProcess:
    """One runner. `paths` are folders with environment modules."""

    def __init__(self, python: str | Path, paths: Sequence[Path] = (PACKAGES,), **env: str) -> None:
        self._python = str(python)
        self._paths = paths
        self._env = env
        self.log = b""

    async def __aenter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="runner-"))
        (self._folder / "code").mkdir()
        (self._folder / "code" / "envhub_runner").symlink_to(RUNNER)
        accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()
        self._server = await asyncio.start_unix_server(
            lambda reader, writer: accepted.set_result((reader, writer)), self._folder / "channel.sock"
        )
        path = os.pathsep.join([str(self._folder / "code"), *map(str, self._paths)])
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "PYTHONPATH": path,
            "ENVHUB_CHANNEL": str(self._folder / "channel.sock"),
            "ENVHUB_SPILL": str(self._folder),
            "HF_HOME": str(self._folder / "hf"),
            **self._env,
        }
        self.process = await start_prepared(self._python, environment)
        self._drain = asyncio.create_task(self._collect())
        self._reader, self._writer = await accepted
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # pools of the environment's would keep the pipe open
        await self._drain
        self._writer.close()
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _collect(self) -> None:
        while piece := await self.process.output.read(65536):
            self.log = (self.log + piece)[-1_000_000:]

    async def send(self, command: Any) -> None:
        """Send a command (a wire type)."""
        body = command.model_dump_json().encode()
        self._writer.write(struct.pack(">I", len(body)) + body)
        await self._writer.drain()

    async def event(self) -> Event:
        """The next event."""
        (length,) = struct.unpack(">I", await self._reader.readexactly(4))
        return EVENTS.validate_json(await self._reader.readexactly(length))

    async def load(self, module: str, **fields: Any) -> Hello | Fatal:
        """Load a module."""
        await self.send(Load(env_id=module.replace("_", "-"), module=module, **fields))
        event = await self.event()
        assert isinstance(event, Hello | Fatal), event
        return event

    async def groups(self, *groups: Group) -> AsyncIterator[RolloutDone]:
        """Run groups at once; yields rollouts as they end."""
        for group in groups:
            await self.send(group)
        left = len(groups)
        while left:
            event = await self.event()
            if isinstance(event, GroupDone):
                left -= 1
            elif isinstance(event, RolloutDone):
                yield event
            else:
                raise AssertionError(event)

    async def rollouts(self, *groups: Group) -> list[RolloutRecord]:
        """The records of groups, by example and rollout."""
        records = [done.record async for done in self.groups(*groups)]
        return sorted(records, key=lambda record: (record.example, record.rollout))

    async def describe(self) -> Described:
        """Ask for the description."""
        await self.send(Describe())
        event = await self.event()
        assert isinstance(event, Described), event
        return event


def group(base_url: str, example: int = 0, n: int = 1, **fields: Any) -> Group:
    """A group against a stub endpoint: its URL has no rollout part."""
    policy = fields.pop("policy", None) or Policy(base_url=base_url, model="stub")
    return Group(id=fields.pop("id", f"g{example}"), example=example, n=n, policy=policy, **fields)


def as_json(value: Any) -> str:
    """For messages of assertions."""
    return json.dumps(value, indent=1, default=str)
