"""Podman's service, with a storage of its own, and the five API calls that the daemon makes.

The Python clients of Podman and Docker cannot start a container from an unpacked image (`rootfs`); both are blocking
and depend on `requests`. The API is HTTP on a unix socket, which aiohttp supports.
"""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from ..errors import BoxFailed, Unavailable

API = "http://podman/v4.0.0/libpod"
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_SECONDS = 30.0
CALL_SECONDS = 60.0
REMOVE_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
# Replaces the host's own configuration. By default podman sets a sysctl in each container, but /proc/sys is read-only
# here.
CONFIGURATION = "[containers]\ndefault_sysctls = []\n"
INSTALL = "sudo apt-get install podman"


@dataclass(frozen=True)
class State:
    """The state of one container."""

    running: bool
    pid: int
    status: int
    out_of_memory: bool


class Podman:
    """A client of one podman service."""

    def __init__(self, http: aiohttp.ClientSession, version: str) -> None:
        self._http = http
        self.version = version

    async def create(self, specification: Mapping[str, Any]) -> None:
        await self._call("POST", "/containers/create", json=specification)

    async def start(self, name: str) -> None:
        await self._call("POST", f"/containers/{name}/start")

    async def state(self, name: str) -> State:
        found = (await self._call("GET", f"/containers/{name}/json"))["State"]
        return State(bool(found["Running"]), int(found["Pid"]), int(found["ExitCode"]), bool(found["OOMKilled"]))

    async def remove(self, name: str) -> None:
        """Kill and remove a container; it is no error if there is none. Raises BoxFailed.

        On a busy host the killed processes take a while to die, and podman gives up: in a report, or by an error.
        """
        for pause in REMOVE_PAUSES:
            with contextlib.suppress(BoxFailed):
                await self._removed(name)
                return
            await asyncio.sleep(pause)
        await self._removed(name)

    async def _removed(self, name: str) -> None:
        options = {"force": "true", "timeout": "0", "ignore": "true"}
        reports = await self._call("DELETE", f"/containers/{name}", params=options)
        for report in reports if isinstance(reports, list) else ():  # a list unless there is no such container
            if report.get("Err") is not None:
                raise BoxFailed(f"podman could not remove {name}", str(report["Err"])[:500])

    async def names(self) -> list[str]:
        """Return the names of all containers in this storage."""
        return [one["Id"] for one in await self._call("GET", "/containers/json", params={"all": "true"})]

    async def _call(self, method: str, path: str, **options: Any) -> Any:
        """Call the API. Raises BoxFailed with the engine's message."""
        try:
            async with self._http.request(method, API + path, **options) as response:
                body = await response.json(content_type=None)
                if response.status < 400 or (response.status == 404 and method == "DELETE"):
                    return body
                message = str(body.get("message", ""))[:500] if isinstance(body, dict) else ""
                raise BoxFailed(f"podman could not {method.lower()} {path} ({response.status})", message)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise BoxFailed("podman does not answer", repr(error)[:300]) from error


def command(folder: Path, runtime: str | None) -> list[str]:
    """Return the command that starts the service, with its own storage: it never sees or removes others' containers."""
    podman = shutil.which("podman", path=PROGRAMS)
    if podman is None:
        raise Unavailable("podman is not installed", INSTALL)
    return [
        *("setpriv", "--pdeathsig", "KILL"),  # or the service of a killed daemon would live for ever
        podman,
        "--root", str(folder / "storage"),
        "--runroot", str(folder / "run"),
        "--tmpdir", str(folder / "tmp"),
        "--storage-driver", "vfs",  # nothing is stored in it: images are already unpacked
        "--cgroup-manager", "cgroupfs",
        "--events-backend", "none",
        *(["--runtime", runtime] if runtime else []),
        "system", "service", "--time", "0", f"unix://{folder / 'podman.sock'}",
    ]  # fmt: skip


@contextlib.asynccontextmanager
async def open_podman(folder: Path, runtime: str | None) -> AsyncIterator[tuple[Podman, "subprocess.Popen[bytes]"]]:
    """Run the service until the context ends. `folder` must belong to this daemon alone. Raises Unavailable."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    socket = folder / "podman.sock"
    socket.unlink(missing_ok=True)
    configuration = folder / "containers.conf"
    configuration.write_text(CONFIGURATION)
    environment = {"PATH": PROGRAMS, "HOME": str(folder), "CONTAINERS_CONF": str(configuration)}
    process = subprocess.Popen(  # noqa: ASYNC220 - once, at the daemon's start, by its main thread
        command(folder, runtime), stdin=subprocess.DEVNULL, env=environment, start_new_session=True, cwd="/",
        umask=0o022,
    )  # fmt: skip
    try:
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        connector = aiohttp.UnixConnector(path=str(socket), limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            yield Podman(http, await _version(http, process)), process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()


async def _version(http: aiohttp.ClientSession, process: "subprocess.Popen[bytes]") -> str:
    """Wait until the service answers and return its version."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_SECONDS
    while loop.time() < deadline and process.poll() is None:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with http.get(f"{API}/version") as response:
                return str((await response.json())["Version"])
        await asyncio.sleep(0.05)
    raise Unavailable("podman's service did not start", "see what it said above")
