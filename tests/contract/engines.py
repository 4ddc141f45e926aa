"""Starts each engine on one tiny model: the subjects of the engines' contract."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from workers.inference.address import EngineAddress
from workers.inference.process import EngineProcess, free_port, torch_command, vllm_command
from workers.inference.requests import EngineRequest
from workers.runs.children import Children

VLLM_ARGUMENTS = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512"),
    *("--kv-cache-memory-bytes", str(128 * 1024**2), "--max-num-seqs", "64"),
)


@asynccontextmanager
async def engine(kind: str, model: Path, folder: Path) -> AsyncIterator[EngineAddress]:
    """Address of a fresh engine of one kind that serves `model` as "hub/tiny"."""
    port = free_port()
    request = EngineRequest(fingerprint="f" * 64, engine="torch", directory=model, name="hub/tiny")
    extra = {}
    if kind == "vllm":
        command = vllm_command(request, port, os.environ["VLLM_PYTHON"], VLLM_ARGUMENTS)
        extra = {"VLLM_CPU_CI_ENV": "1"}
    else:
        command = torch_command(request, port)
    (folder / "children").mkdir(exist_ok=True)
    children = Children(folder / "children")
    process = await EngineProcess.start(command, port, children=children, extra=extra, home=folder)
    try:
        await process.wait_ready(300)
        yield process.address
    finally:
        await process.stop()
