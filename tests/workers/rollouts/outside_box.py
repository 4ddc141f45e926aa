"""A real box whose proxy leads to the worker's answers for the outside; the hub behind them is the test's."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from workers.rollouts.boxes import RUNNER_PATH, RUNNER_SOURCE
from workers.rollouts.interceptor.answers import Upstream
from workers.rollouts.interceptor.data import DataSource
from workers.rollouts.interceptor.scripted import Scripted
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.outside.server import OutsideServer
from workers.sandbox import Bind, Box, BoxSpec, Destination, ExecResult, Sandbox, socket_folder

SITE = "/opt/site"


@dataclass
class OutsideBox:
    """Runs Python in the box, with what is installed for the tests."""

    box: Box
    server: OutsideServer
    interceptor: Interceptor
    said: list[str] = field(default_factory=list)

    async def python(self, code: str, *arguments: str, **variables: str) -> ExecResult:
        base = str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve())
        paths = [self.box.path(SITE), self.box.path(str(Path(RUNNER_PATH).parent))]
        env = {"PYTHONPATH": ":".join(paths), **variables}
        return await self.box.exec([base, "-W", "ignore", "-c", code, *arguments], env=env, timeout=60)


@asynccontextmanager
async def outside_box(
    sandbox: Sandbox, root: Path, hub: str, headers: Mapping[str, str], *, allow: Sequence[Destination] = ()
) -> AsyncIterator[OutsideBox]:
    """`hub` is the hub's address, `headers` authorise there."""
    site = Path(sysconfig.get_paths()["purelib"])
    said: list[str] = []
    model: Upstream = Scripted()
    async with aiohttp.ClientSession(trust_env=False) as http:
        data = DataSource(f"{hub}/hf", headers, http)
        interceptor = Interceptor(model, data=data)
        server = OutsideServer(data.files(), said.append, interceptor.files_lacking)
        with socket_folder(root) as sockets:
            async with (
                interceptor.serve(sockets / "gateway.sock"),
                server.serve(sockets, beside_real=bool(allow)) as outside,
            ):
                spec = BoxSpec(
                    binds=(Bind(site, SITE), Bind(RUNNER_SOURCE, RUNNER_PATH)),
                    sockets=sockets,
                    network="allow-list" if allow else "gateway",
                    allow=tuple(allow),
                    outside=outside,
                )
                async with sandbox.create(spec) as box:
                    yield OutsideBox(box, server, interceptor, said)
