"""Detects the NVIDIA GPUs that this worker may use through `nvidia-smi`; the worker's own process never loads CUDA.

A missing, failing or hanging tool, or unreadable lines, mean no GPUs and a line in the log. A GPU split into MIG
instances is left out: a process could use only one instance, and the reported memory is not the instance's.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress

from envhub.protocol.placing.gpus import Gpu, GpuUse
from pydantic import ValidationError

logger = logging.getLogger(__name__)
PROGRAM = "nvidia-smi"
FIELDS = ("index", "uuid", "name", "memory.total", "memory.free", "mig.mode.current", "utilization.gpu")
COMMAND = (PROGRAM, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")
SECONDS = 10.0
MAX_OUTPUT = 256 * 1024
ALL, NONE = "all", "none"


async def detect_gpus(wanted: str, *, seconds: float = SECONDS) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES and the operator allow this worker, in their current state.

    wanted: WORKER_GPUS: "all", "none", or indices and UUIDs ("0,2").
    """
    return (await see_gpus(wanted, seconds=seconds))[0]


async def see_gpus(wanted: str, *, seconds: float = SECONDS) -> tuple[tuple[Gpu, ...], tuple[GpuUse, ...]]:
    """Return the GPUs as `detect_gpus` does, and how much each is used."""
    if wanted == NONE:
        return (), ()
    listing = await _listing(seconds)
    gpus = _allowed(wanted, parse(listing))
    shares = percents(listing)
    return gpus, tuple(
        GpuUse(index=gpu.index, percent=shares.get(gpu.index), used_mb=gpu.memory_mb - gpu.free_mb) for gpu in gpus
    )


def _allowed(wanted: str, listed: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = listed if visible is None else visible_to_cuda(listed, visible)
    if wanted == ALL:
        return found
    chosen = [chosen_by(found, name) for name in wanted.split(",")]
    for name, gpu in zip(wanted.split(","), chosen, strict=True):
        if gpu is None:
            logger.warning("WORKER_GPUS names %r, which is not among this worker's GPUs", name)
    return tuple(gpu for gpu in found if gpu in chosen)


async def _listing(seconds: float) -> str:
    """Return the tool's output, or "" if it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return ""
    except OSError as error:
        logger.warning("%s cannot be started: %s", PROGRAM, error)
        return ""
    assert process.stdout is not None
    output, status = b"", None
    try:
        async with asyncio.timeout(seconds):
            while len(output) < MAX_OUTPUT and (piece := await process.stdout.read(MAX_OUTPUT)):
                output += piece
            if len(output) < MAX_OUTPUT:
                status = await process.wait()
    except TimeoutError:
        logger.warning("%s has not answered for %g s: going on without GPUs", PROGRAM, seconds)
    finally:
        with suppress(ProcessLookupError):
            process.kill()  # do not wait for it: a hanging driver makes it unkillable
    if status:
        logger.warning("%s failed with status %s: going on without GPUs", PROGRAM, status)
    return output.decode(errors="replace") if status == 0 else ""


def parse(listing: str) -> tuple[Gpu, ...]:
    """Parse the tool's output; lines that cannot be read or used are logged and left out."""
    found = []
    for line in listing.splitlines():
        parts = _fields(line)
        if len(parts) < len(FIELDS):
            if line.strip():
                logger.warning("%s said %r: left out", PROGRAM, line[:200])
            continue
        index, uuid, *name, total, free, mig, _ = parts
        if mig == "Enabled":
            logger.warning("GPU %s is cut into MIG instances: left out", index)
            continue
        try:
            gpu = Gpu.model_validate(
                {"index": index, "uuid": uuid, "name": ", ".join(name), "memory_mb": total, "free_mb": free}
            )
        except ValidationError:
            logger.warning("%s said %r: left out", PROGRAM, line[:200])
            continue
        found.append(gpu)
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def percents(listing: str) -> dict[int, int]:
    """Return for each GPU the percentage of the last second or less in which a kernel ran on it.

    GPUs whose driver does not say are left out.
    """
    lines = [parts for line in listing.splitlines() if len(parts := _fields(line)) >= len(FIELDS)]
    told = [(parts[0], parts[-1]) for parts in lines if parts[0].isdecimal() and parts[-1].isdecimal()]
    return {int(index): min(100, int(percent)) for index, percent in told}


def _fields(line: str) -> list[str]:
    return [part.strip() for part in line.split(",")]


def visible_to_cuda(gpus: Sequence[Gpu], visible: str) -> tuple[Gpu, ...]:
    """Read the variable like CUDA does: it ends at the first name that matches no GPU."""
    found: list[Gpu] = []
    for name in visible.split(","):
        gpu = chosen_by(gpus, name)
        if gpu is None:
            break
        found.append(gpu)
    return tuple(gpu for gpu in gpus if gpu in found)


def chosen_by(gpus: Sequence[Gpu], name: str) -> Gpu | None:
    """Return the GPU with this index, UUID or unique UUID prefix."""
    plain = name.strip()
    if plain.isdecimal():
        return next((gpu for gpu in gpus if gpu.index == int(plain)), None)
    matching = [gpu for gpu in gpus if plain.startswith("GPU-") and gpu.uuid.startswith(plain)]
    return matching[0] if len(matching) == 1 else None
