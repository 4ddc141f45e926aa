"""One engine process: its command line, how it shows that it is ready, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
from envhub.client.outside.own_processes import MARK
from envhub.protocol.placing.gpus import Gpu

from workers.inference.address import KEY_VARIABLE, EngineAddress, new_key
from workers.inference.causes import DEFAULT_HINT, cause_of, hint_for
from workers.inference.requests import EngineRequest
from workers.runs.children import Children
from workers.runs.tied import TIED

KEPT_LINES, SHOWN_LINES, LINE_CHARS = 1000, 20, 1000
READING_S = 1.0  # for the last lines of a process that has ended; a child of it may keep the pipe open
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loopback has no TLS, and loading the system's certificates takes long
EXTENSION = Path(__file__).with_name("vllm_extension")
LOOPBACK = "127.0.0.1"
BASE = "base"  # the served name of the model below an adapter
# The worker's environment variables that an engine may see: no token, no key.
PASSED = ("PATH", "LANG", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "OMP_NUM_THREADS", "TMPDIR")
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
}
# vLLM's --enforce-eager leaves its sampler compiled: the first request would need a C++ compiler and half a minute.
EAGER = {"TORCH_COMPILE_DISABLE": "1"}


class EngineDied(Exception):
    """The process ended or was not ready in time. The message begins with the cause and ends with the last lines."""

    def __init__(self, message: str, hint: str = DEFAULT_HINT) -> None:
        super().__init__(message)
        self.hint = hint


def visible_devices(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return the variables that show a process only these GPUs; none at all if `gpus` is empty.

    They name GPUs by index, as vLLM cannot read UUIDs. CUDA numbers GPUs like nvidia-smi only with PCI_BUS_ID.
    """
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in gpus),
    }


def torch_command(request: EngineRequest, port: int) -> Sequence[str]:
    """Return the command of our own engine, in this interpreter."""
    served = ["--name", request.name]
    if request.adapter is not None:
        served = ["--name", BASE, "--adapter", f"{request.name}={request.adapter}"]
    return [
        *(sys.executable, "-m", "workers.inference.torch_engine"),
        *("--model", str(request.directory), *served, "--port", str(port)),
    ]


def vllm_command(
    request: EngineRequest, port: int, python: str, arguments: Sequence[str], *, gpus: int = 0
) -> Sequence[str]:
    """Return the command of vLLM's OpenAI server, split over this many GPUs.

    Log-probabilities are those of the distribution that tokens were sampled from. The context length is the model's, or
    what fits into memory: with the whole context of many models vLLM would not start.
    """
    served = ["--served-model-name", request.name]
    if request.adapter is not None:
        rank = str(allowed_rank(adapter_rank(request.adapter)))
        served = ["--served-model-name", BASE, "--enable-lora", "--max-lora-rank", rank]
        served += ["--lora-modules", f"{request.name}={request.adapter}"]
    if gpus > 1:
        served += ["--tensor-parallel-size", str(gpus)]
    return [
        *(python, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(request.directory), *served),
        *("--host", "127.0.0.1", "--port", str(port), "--logprobs-mode", "processed_logprobs"),
        *("--middleware", "hub_guard.Guard"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--max-model-len", "auto", *arguments),
    ]


def allowed_rank(rank: int) -> int:
    """Return vLLM's smallest --max-lora-rank that allows `rank`."""
    return next(allowed for allowed in (1, 8, 16, 32, 64, 128, 256, 320, 512) if allowed >= rank)


def adapter_rank(directory: Path) -> int:
    """Return the rank of a PEFT directory. Raises EngineDied if it cannot be read, as no engine could serve it."""
    try:
        return int(json.loads((directory / "adapter_config.json").read_text())["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineDied(f"{directory.name} is not a LoRA adapter: {error}") from error


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def spawn(
    command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> asyncio.subprocess.Process:
    """Start an engine or a learner in a session of its own; its output comes through a pipe. folder: to start it in."""
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**environment, MARK: "1"},  # users' endpoints must never lead to a port that it opens
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )


async def lines_of(process: asyncio.subprocess.Process, chars: int) -> AsyncIterator[str]:
    """Yield the lines that a process writes until it ends, cut to `chars` characters."""
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:  # the line is longer than the reader's limit, and the reader has dropped it
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip()[:chars]


async def answers(address: EngineAddress) -> bool:
    """Return whether /health answers 200."""
    with suppress(httpx.HTTPError):
        async with httpx.AsyncClient(timeout=5.0, verify=PLAIN, trust_env=False, headers=address.headers) as http:
            return (await http.get(f"{address.root}/health")).status_code == 200
    return False


class EngineProcess:
    """A started engine."""

    def __init__(self, process: asyncio.subprocess.Process, address: EngineAddress, children: Children) -> None:
        self._process = process
        self._children = children
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._reading = asyncio.create_task(self._read())
        self._address = address

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        port: int,
        *,
        children: Children,
        extra: Mapping[str, str],
        home: Path,
        run_id: str = "",
        host: str = LOOPBACK,
        folder: Path | None = None,
    ) -> EngineProcess:
        """Start the process in a session of its own.

        It ends with this process; it is also recorded, so that the worker's next start can kill it. host: where
        `command` listens. folder: its working directory.
        """
        environment = {name: os.environ[name] for name in PASSED if name in os.environ} | QUIET | dict(extra)
        address = EngineAddress(f"http://{host}:{port}/v1", new_key())
        environment |= {"HOME": str(home), KEY_VARIABLE: address.key, "PYTHONPATH": str(EXTENSION)}
        if "--enforce-eager" in command:
            environment |= EAGER
        process = await spawn([sys.executable, "-I", TIED, *command], environment, folder)
        children.record(process.pid, what="engine", run_id=run_id)
        return cls(process, address, children)

    @property
    def address(self) -> EngineAddress:
        """The engine's address, valid after `wait_ready`."""
        return self._address

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.returncode is None

    async def healthy(self) -> bool:
        """Return whether the process runs and /health answers 200."""
        return self.alive and await answers(self.address)

    async def wait_ready(self, seconds: float) -> None:
        """Wait until the engine is healthy. Raises EngineDied."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.alive:
                    if await self.healthy():
                        return
                    await asyncio.sleep(0.1)
        raise await self.death(f"was not ready within {seconds:.0f} s")

    async def death(self, otherwise: str = "does not answer") -> EngineDied:
        """Return why the engine ended; `otherwise` says what is wrong with one that still runs."""
        what = otherwise if self.alive else f"ended ({self._process.returncode})"
        if not self.alive:
            await asyncio.wait({self._reading}, timeout=READING_S)
        cause, last = cause_of(self._lines), "\n".join(list(self._lines)[-SHOWN_LINES:])
        said = f": {cause}\n" if cause else ". "
        return EngineDied(f"the engine {what}{said}Its last lines:\n{last}", hint_for(f"{what} {cause}"))

    async def wait(self) -> None:
        """Wait until the process ends."""
        await self._process.wait()

    async def stop(self, *, gently: bool = True) -> None:
        """End the process and everything that it started."""
        if self.alive and gently:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 5)
        await asyncio.to_thread(self._children.end, self._process.pid)
        self._reading.cancel()

    async def _read(self) -> None:
        async for line in lines_of(self._process, LINE_CHARS):
            self._lines.append(line)
