"""The runner works under the oldest Python that environments may ask for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.envhub.runner.runner_process import RUNNER
from workers.venvs.interpreters import OLDEST, present

SCRIPT = """
import asyncio, json, socket, struct, sys
from envhub_runner.adapters import Row
from envhub_runner.frames import Channel, encode
from envhub_runner.service import Service

class Fake:
    prepare = lambda self, supervise: None
    row = lambda self, split, index: Row({"index": index}, None, False)
    async def run(self, row, attempts, policy, columns):
        if row.data["index"] == 0:
            raise asyncio.CancelledError
        await asyncio.sleep(60)
    async def teardown(self):
        pass

async def main():
    ours, theirs = socket.socketpair()
    served = asyncio.create_task(Service(Channel(ours), Fake()).run())
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    for index in (0, 1):
        policy = {"base_url": "x", "model": "m"}
        writer.write(encode({"type": "group", "id": str(index), "example": index, "policy": policy}))
    await asyncio.sleep(0.2)
    writer.write(encode({"type": "cancel", "id": "1"}))
    kinds = {}
    while len(kinds) < 2:
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        frame = json.loads(await reader.readexactly(length))
        if frame["type"] == "rollout":
            kinds[frame["id"]] = frame["record"]["failure"]["message"]
    writer.close()
    await served
    print(json.dumps(kinds))

asyncio.run(asyncio.wait_for(main(), 20))
"""


def test_cancelled_rollouts_are_told_from_those_that_cancel_themselves(tmp_path: Path) -> None:
    found = [interpreter for interpreter in present() if interpreter.short == f"3.{OLDEST}"]
    if not found:
        pytest.skip(f"this machine has no Python 3.{OLDEST}")
    (tmp_path / "envhub_runner").symlink_to(RUNNER)
    environ = {"PYTHONPATH": str(tmp_path), "ENVHUB_SPILL": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [found[0].executable, "-c", SCRIPT], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {
        "0": "the environment cancelled its own rollout",
        "1": "the group was cancelled",
    }
