"""A box for an environment has room for all the model calls that its rollouts make at once."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from workers.rollouts.boxes import environment_box
from workers.sandbox import backend
from workers.settings import WorkerEnvironment
from workers.venvs.interpreters import present

CALLS = 800  # the forwarder holds two files for each: more than the 1024 that are usual
CODE = """
import asyncio, sys
async def call():
    reader, writer = await asyncio.open_connection("127.0.0.1", 31980)
    writer.write(b"?")
    return await reader.read(1)
async def main():
    print(set(await asyncio.gather(*(call() for _ in range(int(sys.argv[1]))))))
asyncio.run(main())
"""


@pytest.mark.sandbox
async def test_a_runner_makes_hundreds_of_calls_at_once() -> None:
    waiting: list[asyncio.StreamWriter] = []

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        waiting.append(writer)
        if len(waiting) == CALLS:
            for one in waiting:
                one.write(b"!")

    interpreter = present()[0]
    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as name:
        venv, sockets = Path(name, "venv"), Path(name, "sockets")
        for folder in (Path(name), venv, sockets):
            folder.mkdir(exist_ok=True)
            os.chmod(folder, 0o755)
        spec = environment_box(venv, sockets, WorkerEnvironment(), python=interpreter.short)
        gateway = await asyncio.start_unix_server(answer_all, sockets / "gateway.sock", backlog=CALLS)
        async with gateway, backend("bwrap", Path(name, "boxes")).create(spec) as box:
            found = await box.exec([str(interpreter.executable), "-c", CODE, str(CALLS)], timeout=30)
            for one in waiting:
                one.close()
    assert found.stdout == b"{b'!'}\n", found.stderr[-500:]
