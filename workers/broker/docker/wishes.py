"""Turn a client's requests for containers and execs into Wishes; refuse what this hub does not have.

Fields that make no difference inside the container (log drivers, restart policies, capabilities) are ignored. What a
program would miss (GPUs, networks) is refused with an explanation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from workers.broker.interface import Wish
from workers.broker.prime.commands import ROOT
from workers.broker.prime.wishes import checked_env
from workers.broker.refusals import Refusal

MIB = 1024 * 1024
NANO = 1_000_000_000
CPU_PERIOD = 100_000  # microseconds, the engine's default
OPEN_NETWORKS = {"", "default", "bridge", "host", "none"}
Text = Annotated[str, StringConstraints(max_length=100_000, pattern=r"^[^\x00]*$")]
Short = Annotated[str, StringConstraints(max_length=512, pattern=r"^[^\x00]*$")]
Words = Annotated[list[Text], Field(max_length=4096)] | Text | None

VOLUMES_FROM = "containers of this hub share no volumes by volumes_from: name the volumes again"
NO_NETWORKS = "containers of this hub join no networks: each one reaches what its run allows"
NO_GPU = "containers of this hub have no GPU"


class HostConfig(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    memory: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, alias="Memory")
    nano_cpus: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, alias="NanoCpus")
    cpu_quota: Annotated[int, Field(ge=-1, lt=2**63)] = Field(0, alias="CpuQuota")
    cpu_period: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, alias="CpuPeriod")
    network: Short | None = Field(None, alias="NetworkMode")
    binds: Annotated[list[Text], Field(max_length=100)] | None = Field(None, alias="Binds")
    mounts: Annotated[list[Mapping[str, object]], Field(max_length=100)] | None = Field(None, alias="Mounts")
    volumes_from: list[object] | None = Field(None, alias="VolumesFrom")
    ports: Annotated[dict[Short, object], Field(max_length=100)] | None = Field(None, alias="PortBindings")
    publish_all: bool = Field(False, alias="PublishAllPorts")
    devices: list[object] | None = Field(None, alias="DeviceRequests")
    auto_remove: bool = Field(False, alias="AutoRemove")


class CreateRequest(BaseModel):
    image: Short = Field("", alias="Image")
    command: Words = Field(None, alias="Cmd")
    entrypoint: Words = Field(None, alias="Entrypoint")
    env: Annotated[list[Text], Field(max_length=1000)] | None = Field(None, alias="Env")
    cwd: Text | None = Field(None, alias="WorkingDir")
    user: Short | None = Field(None, alias="User")
    labels: Annotated[dict[Short, Text], Field(max_length=200)] | None = Field(None, alias="Labels")
    terminal: bool = Field(False, alias="Tty")
    stdin: bool = Field(False, alias="OpenStdin")
    exposed: Annotated[dict[Short, object], Field(max_length=100)] | None = Field(None, alias="ExposedPorts")
    stop_signal: Short | int | None = Field(None, alias="StopSignal")
    host: HostConfig | None = Field(None, alias="HostConfig")


class ExecRequest(BaseModel):
    command: Words = Field(None, alias="Cmd")
    env: Annotated[list[Text], Field(max_length=1000)] | None = Field(None, alias="Env")
    cwd: Text | None = Field(None, alias="WorkingDir")
    user: Short | None = Field(None, alias="User")
    terminal: bool = Field(False, alias="Tty")
    stdin: bool = Field(False, alias="AttachStdin")


class StartRequest(BaseModel):
    detach: bool = Field(False, alias="Detach")
    size: Annotated[list[Annotated[int, Field(ge=0, le=10_000)]], Field(min_length=2, max_length=2)] | None = Field(
        None, alias="ConsoleSize"
    )


def wish_of(asked: CreateRequest, name: str) -> Wish:
    """Turn a request for a container into a Wish. Raises Refusal."""
    if not asked.image:
        raise Refusal(400, "Image: name the image of the container, such as python:3.11-slim")
    host = asked.host or HostConfig.model_validate({})
    for wanted, words in (
        (host.volumes_from, VOLUMES_FROM),
        (host.devices, NO_GPU),
        ((host.network or "") not in OPEN_NETWORKS, NO_NETWORKS),
    ):
        if wanted:
            raise Refusal(501, words)
    check_user(asked.user)
    cpus = host.nano_cpus / NANO or (max(host.cpu_quota, 0) / (host.cpu_period or CPU_PERIOD))
    return Wish(
        image=asked.image,
        name=name[:256],
        labels=tuple(f"{key}={value}"[:256] for key, value in (asked.labels or {}).items())[:100],
        cpus=cpus or None,
        memory_mb=max(1, host.memory // MIB) if host.memory else None,
        env=variables(asked.env),
        allow_hosts=() if host.network == "none" else None,
    )


def argv_of(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the arguments of a command in the API's forms: a list, or a string, which is for a shell."""
    if isinstance(given, str):
        return ("/bin/sh", "-c", given) if given else ()
    return tuple(given or ())


def variables(given: Sequence[str] | None) -> Mapping[str, str]:
    """Return the variables of a list of NAME=value entries. Raises Refusal.

    A bare name, which means "unset" in Docker, is dropped.
    """
    return checked_env(dict(item.split("=", 1) for item in given or () if "=" in item))


def check_user(user: str | None) -> None:
    """Raise Refusal for a user other than root: a sandbox has only that one."""
    if user and user not in ROOT:
        raise Refusal(501, f"{user} cannot run commands: containers of this hub have one user, root; leave it out")
