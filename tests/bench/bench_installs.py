"""How long sandboxes of a run take that install the same side by side, and what it costs the worker.

`python -m tests.bench.bench_installs [--at-once 4] [COMMAND]`: once alone, which fills the stores below --data, then
so many at once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from workers.broker.interface import Session, Wish
from workers.images.base import ensure_base
from workers.images.interface import BASE, Image
from workers.images.store import Holding, Store
from workers.rollouts.package_stores import open_stores
from workers.rollouts.sandboxes import open_sandboxes
from workers.runs.execution import Job
from workers.sandbox import backend
from workers.settings import WorkerEnvironment

COMMAND = """
pip install -q --user uv && export PATH=$HOME/.local/bin:$PATH && uv venv -q /tmp/v &&
uv pip install -q --python /tmp/v/bin/python 'mini-swe-agent==2.4.6' 'litellm[proxy]==1.102.0'
"""


class Held:
    """One image, for every name."""

    def __init__(self, holding: Holding) -> None:
        config = holding.kept.config
        self._image = Image(BASE, holding.kept.digest, holding.root, env=config.env, workdir=config.workdir)

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        yield self._image


async def install(session: Session, command: str) -> None:
    held = await session.create(Wish(memory_mb=2048, disk_mb=4096))
    result = await held.exec(["sh", "-c", command], timeout=600)
    assert result.exit_code == 0, result.stderr[-1000:]
    stats = await held.stats()
    await held.end()
    cpu, memory = stats.cpu_seconds or 0.0, (stats.peak_memory_bytes or 0) / 1024**2
    print(f"  one: {cpu:.1f} s of CPU in the sandbox, {memory:.0f} MiB at most")


async def main(options: argparse.Namespace) -> None:
    settings = WorkerEnvironment(data=options.data)
    claim = SimpleNamespace(owner="bench", run_id="1")
    job = cast(Job, SimpleNamespace(settings=settings, claim=claim, run=cast(Any, None)))
    holding = await ensure_base(Store(settings.folder("images"), max_bytes=10**11))
    sandbox = backend("bwrap", settings.folder("boxes"))
    async with (
        open_stores(settings) as stores,
        open_sandboxes(job, sandbox, Held(holding), stores).for_user() as session,
    ):
        for number in (1, options.at_once):
            began, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(install(session, options.command) for _ in range(number)))
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            print(f"{number} at once: {seconds:.1f} s, {cpu:.1f} s of the worker's CPU")
    holding.release()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_installs", description=__doc__)
    parser.add_argument("command", nargs="?", default=COMMAND)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/envhub-test-worker", help="has images/")
    parser.add_argument("--at-once", type=int, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
