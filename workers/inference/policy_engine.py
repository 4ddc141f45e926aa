"""The engine of a training run: a separate process whose weights change. Both kinds of engine use vLLM's routes.

    async with policy_engine(start, children=children, home=home, run_id=run_id) as engine:
        await engine.load_adapter("policy-v1", directory); ...; await engine.replace_weights(directory)
Versions of a LoRA policy are adapters with a name each, so a cached prefix never serves another version. A fully
trained policy has one name; its weights are replaced while nothing is decoded, and all cached prefixes are dropped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import httpx
from envhub.protocol.base import JsonObject
from envhub.protocol.placing.gpus import Gpu

from workers.inference.address import EngineAddress
from workers.inference.process import (
    EXTENSION,
    LOOPBACK,
    EngineDied,
    EngineProcess,
    allowed_rank,
    free_port,
    torch_command,
    visible_devices,
    vllm_command,
)
from workers.inference.requests import EngineRequest
from workers.runs.children import Children

START_SECONDS = {"torch": 180.0, "vllm": 900.0}
TIMEOUT = httpx.Timeout(600.0, connect=10.0)
# After an exception vLLM's server closes a connection without announcing it, and the next call on it would fail.
ONE_CALL_EACH = httpx.Limits(max_keepalive_connections=0)


class EngineRefused(Exception):
    """The engine answered a policy call with an error; the message is the engine's."""


@dataclass(frozen=True)
class EnginePart:
    """One host's part of a vLLM engine that spans several: some of its layers. The first part answers requests."""

    number: int
    of: int
    address: str  # of the first part's host
    port: int  # there, where the parts meet
    root: Path  # on this host; the engine is told paths below it, which are the same on all of its hosts


@dataclass(frozen=True)
class PolicyEngineStart:
    """How to start an engine.

    `adapters` is how many versions, of rank up to `rank`, can be loaded at once; 0 means full weights.
    """

    kind: Literal["torch", "vllm"]
    directory: Path
    name: str
    adapters: int = 0
    rank: int = 16
    deterministic: bool = False
    threads: int = 1
    vllm_python: str = ""
    vllm_arguments: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()  # none: on the CPU
    gpu_share: float | None = None  # of each GPU's memory; None: vLLM's default
    # None: bfloat16 on GPUs; on the CPU float32, or with vLLM the files' own
    dtype: Literal["float32", "bfloat16"] | None = None
    sleeps: bool = False  # it will be asked to sleep, so that another process can use its GPU
    part: EnginePart | None = None  # None: the whole engine is on this host

    def command(self, port: int, host: str = LOOPBACK) -> list[str]:
        """Return the process's command line. host: this host's address, if other hosts call the engine."""
        where = [] if host == LOOPBACK else ["--host", host]
        request = EngineRequest(fingerprint="policy", engine=self.kind, directory=self.directory, name=self.name)
        if self.kind == "torch":
            extra = ["--deterministic"] if self.deterministic else []
            extra += ["--dtype", self.dtype] if self.dtype else []
            return [*torch_command(request, port), "--threads", str(self.threads), *extra, *where]
        dtype = self.dtype or ("bfloat16" if self.gpus else "")  # the learner's, whatever dtype the files have
        precision = ("--dtype", dtype) if dtype else ()
        python, _, _, *arguments = vllm_command(request, port, self.vllm_python, (*precision, *self.vllm_arguments))
        command = [python, str(EXTENSION / "hub_vllm_server.py"), *arguments]
        command += ["--worker-extension-cls", "hub_vllm.HubWorker"]
        # otherwise the model's own top_k and top_p would truncate the distribution
        command += ["--generation-config", "vllm"]
        if self.adapters:
            slots = [
                "--enable-lora",
                "--max-loras",
                str(self.adapters),
                "--max-lora-rank",
                str(allowed_rank(self.rank)),
            ]
            command += slots
        return [*command, *self._placed(), *where]

    def _placed(self) -> list[str]:
        """Return arguments that go after the operator's own, because the worker decides about GPUs."""
        placed = []
        if len(self.gpus) > 1:
            placed += ["--tensor-parallel-size", str(len(self.gpus))]
        if self.gpu_share is not None:
            placed += ["--gpu-memory-utilization", str(self.gpu_share)]
        if self.part is not None:
            placed += part_arguments(self.part)
        return [*placed, "--enable-sleep-mode"] if self.sleeps else placed

    def variables(self) -> dict[str, str]:
        """Return the variables that the process needs besides QUIET."""
        visible = visible_devices(self.gpus)
        if self.kind == "torch":
            return visible
        switches = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
        return {**visible, **switches}


def part_arguments(part: EnginePart) -> list[str]:
    """Return vLLM's arguments for a part: layers are split over hosts, and each layer over the GPUs of its host."""
    arguments = [
        *("--pipeline-parallel-size", str(part.of), "--nnodes", str(part.of), "--node-rank", str(part.number)),
        *("--master-addr", part.address, "--master-port", str(part.port), "--distributed-executor-backend", "mp"),
    ]
    return [*arguments, "--headless"] if part.number else arguments


class EngineLife(Protocol):
    """An engine's process, on this host (EngineProcess) or another."""

    @property
    def address(self) -> EngineAddress: ...
    @property
    def alive(self) -> bool: ...
    async def healthy(self) -> bool: ...
    async def death(self, otherwise: str = ...) -> EngineDied: ...
    async def wait(self) -> None: ...
    async def stop(self, *, gently: bool = ...) -> None: ...


class PolicyEngine:
    """A running engine. It answers callers that know its key."""

    def __init__(self, process: EngineLife, name: str) -> None:
        self.process = process
        self.name = name
        root, headers = self.address.root, self.address.headers
        self._http = httpx.AsyncClient(
            base_url=root, headers=headers, trust_env=False, timeout=TIMEOUT, limits=ONE_CALL_EACH
        )

    @property
    def address(self) -> EngineAddress:
        """The address and key for completions."""
        return self.process.address

    async def bring(self, directory: Path) -> Path:
        """Make a directory available on the engine's host and return its path there. Raises EngineRefused."""
        return directory

    async def load_adapter(self, name: str, directory: Path) -> None:
        """Serve a PEFT directory under `name`. Raises EngineRefused."""
        await self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(directory)})

    async def unload_adapter(self, name: str) -> None:
        """Stop serving `name`. Raises EngineRefused."""
        await self._post("/v1/unload_lora_adapter", {"lora_name": name})

    async def models(self) -> tuple[str, ...]:
        """Return the names that are served."""
        answer = await self._http.get("/v1/models")
        return tuple(entry["id"] for entry in answer.json()["data"])

    async def pause(self, mode: Literal["keep", "wait"]) -> None:
        """Pause the engine: `keep` freezes running requests, `wait` lets them end. New ones wait for `resume`."""
        await self._post(f"/pause?mode={mode}")

    async def resume(self) -> None:
        """Resume the engine."""
        await self._post("/resume")

    async def sleep(self) -> None:
        """Move the weights to host memory and drop the cache; nothing may be running. Raises EngineRefused."""
        await self._post("/sleep?level=1")

    async def wake_up(self) -> None:
        """Restore the weights; the cache is empty. Raises EngineRefused."""
        await self._post("/wake_up")

    async def replace_weights(self, directory: Path) -> None:
        """Replace the base weights between two requests. Raises EngineRefused.

        Weights of another model are refused before anything is written, and the old ones stay in use. Any other failure
        leaves the engine paused, because a part of its weights may be new.
        """
        await self.pause("wait")
        answer = await self._post("/collective_rpc", {"method": "hub_reload_weights", "args": [str(directory)]})
        refused = [result["refused"] for result in answer.json()["results"] if "refused" in result]
        if not refused:
            await self._post("/reset_prefix_cache")
        await self.resume()
        if refused:
            raise EngineRefused(refused[0])

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _post(self, path: str, body: JsonObject | None = None) -> httpx.Response:
        if self._http.is_closed:  # a caller that began before the process ended
            raise EngineRefused(f"{path}: the engine has ended")
        try:
            answer = await self._http.post(path, json=body)
        except httpx.HTTPError as error:
            raise EngineRefused(f"{path}: {error!r}") from error
        if answer.status_code != 200:
            raise EngineRefused(f"{path}: {text_of(answer)}")
        return answer


def text_of(answer: httpx.Response) -> str:
    """Return an engine's error message."""
    try:
        body: Any = answer.json()
        return str(body["error"]["message"])[:1000]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}: {answer.text[:1000]}"


@asynccontextmanager
async def policy_engine(
    start: PolicyEngineStart, *, children: Children, home: Path, run_id: str = ""
) -> AsyncIterator[PolicyEngine]:
    """Start an engine process for the duration of the block. Raises EngineDied."""
    port = free_port()
    home.mkdir(parents=True, exist_ok=True)
    process = await EngineProcess.start(
        start.command(port), port, children=children, extra=start.variables(), home=home, run_id=run_id
    )
    engine = PolicyEngine(process, start.name)
    try:
        await process.wait_ready(START_SECONDS[start.kind])
        yield engine
    finally:
        await engine.close()
        await process.stop(gently=False)  # it has nothing to save, and a cancelled run should end at once


__all__ = ["EngineDied", "EngineRefused", "PolicyEngine", "PolicyEngineStart", "policy_engine"]
