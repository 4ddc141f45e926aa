"""POST exec, by which releases before 0.3 run a command, and the checks that apply to every command line."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, Field

from workers.broker.bodies import read_json
from workers.broker.interface import Stream
from workers.broker.memory import MEMORY, Memory
from workers.broker.prime.live import check_alive, killed
from workers.broker.prime.service import SERVICE
from workers.broker.prime.wishes import Short, Text, checked_env
from workers.broker.refusals import Refusal
from workers.sandbox import ExecResult, SandboxError

ARGUMENT_LIMIT = 128 * 1024 - 1  # Linux's limit for one argument
PATH_LIMIT = 4096
OUTPUT_LIMIT = 16 * 1024 * 1024  # per stream
DEFAULT_S = 300.0
LONGEST_S = 24 * 3600.0
ROOT = {"root", "0", "root:root", "0:0"}
ONE_USER = "a sandbox of this hub has one user, its root; leave the user out where the task does not need another"
GRACE_S = 0.25  # the oldest releases raise the right error class only if they time out before our answer arrives


class ExecRequest(BaseModel):
    command: str
    working_dir: Text | None = None
    env: Annotated[dict[str, str], Field(max_length=4096)] = {}
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_S
    user: Short | None = None


class Output:
    """The beginning of a command's output, counted against the client's memory limit."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._kept: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False
        self._closed = False

    def feed(self, stream: Stream, data: bytes) -> None:
        kept = self._kept[stream]
        fits = data[: OUTPUT_LIMIT - len(kept)]
        if self._closed or not self._memory.take(len(fits)):
            fits = b""
        kept += fits
        self.truncated = self.truncated or len(fits) < len(data)

    def text(self, stream: Stream) -> str:
        return self._kept[stream].decode(errors="replace")

    def give_back(self) -> None:
        """Return the memory to the client's limit; later output is dropped."""
        self._closed = True
        self._memory.give_back(sum(map(len, self._kept.values())))


async def execute(request: web.Request) -> web.Response:
    """Run a shell command to its end."""
    asked = await read_json(request, ExecRequest)
    checked_argv([asked.command], asked.working_dir, asked.user)
    output = Output(request.app[MEMORY])
    try:
        result = await _run(request, asked, output)
        if result.timed_out:
            raise Refusal(408, f"the command took longer than {asked.timeout:g} s and was ended")
        stderr = output.text("stderr")
        if output.truncated:
            stderr += f"\n[more than {OUTPUT_LIMIT // 1024 // 1024} MiB was written; redirect it to a file]\n"
        return web.json_response({"stdout": output.text("stdout"), "stderr": stderr, "exit_code": result.exit_code})
    finally:
        output.give_back()


async def _run(request: web.Request, asked: ExecRequest, output: Output) -> ExecResult:
    """Run the command and kill it if the client disconnects.

    Raises NotThere, also if the sandbox ends with the command.
    """
    service = request.app[SERVICE]
    held = service.living(request)
    process = await held.start(
        (await service.shell(held), "-c", asked.command),
        env=checked_env(asked.env),
        cwd=asked.working_dir or None,
        on_output=output.feed,
    )
    ended = False
    try:
        result = await process.wait(min(asked.timeout, LONGEST_S) + GRACE_S)
        ended = True
    except SandboxError:
        ended = True
        await check_alive(held)
        raise
    finally:
        if not ended:
            with contextlib.suppress(SandboxError):
                await process.signal(signal.SIGKILL)
    if killed(result):
        await check_alive(held)
    return result


def checked_argv(argv: Sequence[str], cwd: str | None, user: str | None) -> None:
    """Raise Refusal for a command that Linux cannot run or that no sandbox here supports."""
    if any(len(item.encode(errors="replace")) > ARGUMENT_LIMIT for item in argv):
        raise Refusal(413, "the command is longer than 128 KiB; upload it as a script and run that")
    if any("\0" in item for item in (*argv, cwd or "", user or "")):
        raise Refusal(400, "a command, its directory and its user hold no NUL byte")
    if len(cwd or "") > PATH_LIMIT or len(user or "") > 256:
        raise Refusal(400, "the directory or the user of the command is too long")
    if user and user not in ROOT:
        raise Refusal(501, f"{user} cannot run commands: {ONE_USER}")
