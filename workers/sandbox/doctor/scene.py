"""The targets of the attacks on the host during the suite: a file that others use, a secret, a listening port."""

import asyncio
import contextlib
import fcntl
import os
import secrets
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from ..interface import Bind, BoxSpec, Limits
from .own_image import make_image

SECRET_NAME = "ENVHUB_DOCTOR_SECRET"


@dataclass(frozen=True)
class Scene:
    """The targets. `arguments` are given to each attack, as if the attacker had guessed everything."""

    directory: Path
    image: Path
    arguments: dict[str, object]

    def spec(self, limits: Limits | None = None) -> BoxSpec:
        return BoxSpec(
            binds=(Bind(self.directory / "bound", "/bound"),),
            sockets=self.directory / "sockets",
            env={SECRET_NAME: str(self.arguments["secret"])},
            limits=limits or Limits(),
        )


async def _greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"host")
    writer.close()


@contextlib.asynccontextmanager
async def used_by_others(path: Path) -> AsyncIterator[None]:
    """Lock a file, and open it and a program of the host again and again, until the context ends."""

    async def use() -> None:
        while True:
            for one in (path, Path("/usr/bin/env")):
                one.open("rb").close()
            await asyncio.sleep(0.05)

    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        using = asyncio.create_task(use())
        try:
            yield
        finally:
            using.cancel()


@contextlib.asynccontextmanager
async def set_scene(place: Path) -> AsyncIterator[Scene]:
    """Set up the targets below `place`, a folder that boxes may be shown."""
    secret = secrets.token_hex(16)
    os.environ[SECRET_NAME] = secret
    with (
        tempfile.TemporaryDirectory(prefix="doctor-", dir=place) as name,
        tempfile.TemporaryDirectory(prefix="envhub-doctor-") as open_to_all,
    ):
        directory = Path(name)
        for path in (directory, Path(open_to_all)):
            path.chmod(0o755)
        canary = Path(open_to_all) / "canary"
        canary.write_text("a file of the host")
        bound = directory / "bound"
        bound.mkdir()
        (bound / "file").write_text("bound")
        bound.chmod(0o777)  # so that only the read-only bind protects it
        (bound / "file").chmod(0o666)
        (directory / "sockets").mkdir()
        abstract = f"envhub-doctor-{secret}"
        async with contextlib.AsyncExitStack() as stack:
            tcp = await stack.enter_async_context(await asyncio.start_server(_greet, "127.0.0.1", 0))
            await stack.enter_async_context(await asyncio.start_unix_server(_greet, f"\0{abstract}"))
            await stack.enter_async_context(used_by_others(bound / "file"))
            await stack.enter_async_context(
                await asyncio.start_unix_server(_greet, directory / "sockets" / "gateway.sock")
            )
            arguments: dict[str, object] = {
                "canary": str(canary),
                "pid": os.getpid(),
                "secret": secret,
                "port": tcp.sockets[0].getsockname()[1],
                "abstract": abstract,
            }
            try:
                yield Scene(directory, make_image(directory / "image"), arguments)
            finally:
                os.environ.pop(SECRET_NAME, None)
