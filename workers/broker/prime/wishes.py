"""Turn a client's request for a sandbox into a Wish; refuse, with an explanation, what this hub does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from workers.broker.interface import Wish
from workers.broker.prime.egress import ALL, permitted
from workers.broker.refusals import Refusal

MIB_A_GB = 1024
FOREVER_S = 30 * 24 * 3600.0  # for timeout_minutes -1; the broker's limit is lower
IDLE_COMMANDS = ("tail -f /dev/null", "sleep infinity")  # clients start these to keep a container alive: not needed
VARIABLE = re.compile(r"[^=\0]+\Z")
ENV_LIMIT = 128 * 1024

Short = Annotated[str, StringConstraints(max_length=256, pattern=r"^[^\x00]*$")]
Text = Annotated[str, StringConstraints(max_length=100_000, pattern=r"^[^\x00]*$")]
Variables = Annotated[dict[Short, Text], Field(max_length=1000)]


class StartCommand(BaseModel):
    executable: Annotated[Text, StringConstraints(min_length=1)]
    args: Annotated[list[Text], Field(max_length=1000)] = []


class CreateRequest(BaseModel):
    """The fields of any release's request that have a meaning here; other fields are ignored."""

    model_config = ConfigDict(allow_inf_nan=False)
    name: Short = ""
    docker_image: Short | None = None
    checkpoint_id: Short | None = None
    start_command: StartCommand | Text | None = None
    cpu_cores: Annotated[float, Field(gt=0, le=4096)] | None = None
    memory_gb: Annotated[float, Field(gt=0, le=65536)] | None = None
    disk_size_gb: Annotated[float, Field(gt=0, le=65536)] | None = None
    gpu_count: int = 0
    vm: bool = False
    network_access: bool | None = None
    network_allowlist: Annotated[list[Short], Field(max_length=1024)] | None = None
    network_denylist: Annotated[list[Short], Field(max_length=1024)] | None = None
    timeout_minutes: Annotated[float, Field(ge=-1, le=10_000_000)] | None = None
    idle_timeout_minutes: Annotated[float, Field(gt=0, le=10_000_000)] | None = None
    environment_vars: Variables | None = None
    secrets: Variables | None = None
    labels: Annotated[list[Short], Field(max_length=100)] = []
    volumes: list[object] | None = None
    registry_credentials_id: Short | None = None
    idempotency_key: Short | None = None


def wish_of(asked: CreateRequest, run_allows: Sequence[str]) -> Wish:
    """Turn a request into a Wish. Raises Refusal."""
    _refuse_what_is_lacking(asked)
    if not asked.docker_image:
        raise Refusal(422, "docker_image: name the image of the sandbox, such as python:3.11-slim")
    minutes = asked.timeout_minutes
    return Wish(
        image=asked.docker_image,
        name=asked.name,
        labels=tuple(asked.labels),
        start_command=_start_command(asked.start_command),
        cpus=asked.cpu_cores,
        memory_mb=_megabytes(asked.memory_gb),
        disk_mb=_megabytes(asked.disk_size_gb),
        lifetime_s=None if minutes is None else FOREVER_S if minutes < 0 else max(minutes * 60, 1.0),
        idle_s=None if asked.idle_timeout_minutes is None else asked.idle_timeout_minutes * 60,
        env=checked_env({**(asked.environment_vars or {}), **(asked.secrets or {})}),
        allow_hosts=_allow_hosts(asked, run_allows),
    )


def checked_env(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables. Raises Refusal for an invalid name, a NUL byte in a value, or more than 128 KiB."""
    for name, value in env.items():
        if not VARIABLE.match(name) or "\0" in value:
            raise Refusal(422, f"the environment variable {name[:100]!r} has a bad name or a NUL in its value")
    if sum(len(name.encode()) + len(value.encode(errors="replace")) for name, value in env.items()) > ENV_LIMIT:
        raise Refusal(413, "the environment variables are larger than 128 KiB; upload a file instead")
    return env


def _refuse_what_is_lacking(asked: CreateRequest) -> None:
    if asked.gpu_count:
        raise Refusal(501, "sandboxes of this hub have no GPU: ask with gpu_count=0")
    if asked.checkpoint_id:
        raise Refusal(501, "this hub keeps no checkpoints of sandboxes: start from an image (docker_image)")
    if asked.volumes:
        raise Refusal(501, "this hub mounts no volumes: upload what the sandbox needs with upload_file")
    if asked.registry_credentials_id:
        raise Refusal(501, "registry credentials are the operator's here: leave registry_credentials_id out")


def _start_command(command: StartCommand | str | None) -> tuple[str, ...]:
    if isinstance(command, StartCommand):
        argv: tuple[str, ...] = (command.executable, *command.args)
        return () if " ".join(argv) in IDLE_COMMANDS else argv
    if command is None or not command.strip() or command.strip() in IDLE_COMMANDS:
        return ()
    return ("/bin/sh", "-c", command)


def _megabytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else max(1, round(gigabytes * MIB_A_GB))


def _allow_hosts(asked: CreateRequest, run_allows: Sequence[str]) -> tuple[str, ...] | None:
    if asked.network_allowlist is not None and asked.network_denylist is not None:
        raise Refusal(422, "network_allowlist and network_denylist exclude each other")
    if asked.network_access is False:
        return ()
    if asked.network_allowlist is None and asked.network_denylist is None:
        return None
    return permitted(
        run_allows,
        allow=[ALL] if asked.network_allowlist is None else asked.network_allowlist,
        deny=asked.network_denylist or [],
    )
