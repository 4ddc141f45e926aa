"""The worker's settings from its environment (WORKER_*), typed; a bad value stops the process and names itself."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Literal

from envhub.client.telemetry.json_logs import LogFormat
from pydantic import (
    AfterValidator,
    Field,
    HttpUrl,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
)
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

PREFIX = "WORKER_"
AptMirror = Annotated[str, Field(pattern=r"^(none|[\w.-]+(:\d+)?(/[\w.~-]+)*(=https?://[^\s/?#@]+(/[^\s?#]*)?)?)$")]
Slots = Annotated[int, Field(ge=0, le=256)]


SANDBOXES = ("bwrap", "podman", "process")


class BadSettings(Exception):
    """A setting has a value that cannot be used; the message names its variable."""


def known_sandboxes(text: str) -> str:
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) < len(names) or not set(names) <= set(SANDBOXES):
        raise ValueError(f"names of {', '.join(map(repr, SANDBOXES))}, separated by commas")
    if names == ["podman"]:
        raise ValueError("'podman' makes boxes on images alone: 'bwrap' is needed as well, for those of environments")
    return ",".join(names)


class WorkerEnvironment(BaseSettings):
    """Every knob of a worker. Only `hub_url` and `token` have no useful default on another host than the hub's."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    hub_url: HttpUrl = HttpUrl("http://127.0.0.1:8000")
    token: SecretStr = SecretStr("")  # a worker token, hubw_...
    data: Path = Path("data/worker")  # everything that this worker keeps; one worker process per directory
    name: str = Field(default_factory=socket.gethostname, min_length=1, max_length=100)
    # queue -> runs at once
    slots: dict[str, Slots] = Field(default_factory=lambda: {"build": 1, "eval": 1, "train": 1})
    sandboxes: Annotated[str, AfterValidator(known_sandboxes)] = "bwrap"  # in the order in which they are preferred
    sandbox_engine: Path = Path("/run/envhub-engine/engine.sock")  # where podman's daemon listens
    sandbox_accept_no_isolation: bool = False  # "process" isolates nothing: it must be accepted as well
    beat_seconds: PositiveFloat | None = None  # how often the hub hears of it; None: as the hub says when it joins
    heartbeat_seconds: PositiveFloat = 1.0  # at most; a third of the lease when that is shorter
    hub_patience_s: PositiveFloat = 180.0  # how long a call is retried while the hub is away
    run_limit_s: PositiveFloat = 24 * 3600.0  # a run that takes longer is stopped
    stop_grace_s: PositiveFloat = 30.0  # after SIGTERM, before a run that was not given back is killed
    log_limit_mb: PositiveInt = 16  # of one attempt's log
    disk_reserve_mb: NonNegativeInt = 500  # with less free under `data` no new run is taken
    cache_mb: PositiveInt = 10_000  # of fetched blobs
    venvs_mb: PositiveInt = 40_000  # of unpacked wheels, which all environments share
    models_mb: PositiveInt = 200_000  # of fetched model directories
    training_mb: PositiveInt = 200_000  # of training runs' directories: journals, weights, checkpoints
    images_mb: PositiveInt = 20_000  # of unpacked images that no run uses
    image_mb: PositiveInt = 10_000  # of one unpacked image
    image_authfile: str = ""  # credentials for registries, as `skopeo login --authfile` writes them; empty: none
    uv_mb: PositiveInt = 2_000  # of what uv remembers of package indexes
    package_index_url: str = ""  # roots of the package indexes for builds; empty: as uv and pip are configured here
    torch_index_url: str = ""  # where torch's builds for the CPU are; empty: torch's own index; "none": nowhere
    build_mb: PositiveInt = 20_000  # of the unpacked wheels of one environment
    build_tries: PositiveInt = 8  # releases of verifiers that a build installs and tries, until one loads
    build_tries_s: PositiveFloat = 900.0  # no further release is tried after this
    runner_processes: int = Field(default=0, ge=0, le=64)  # runners of an evaluation; 0: by its concurrency
    load_limit_s: PositiveFloat = 600.0  # to load an environment, and as long again to describe it
    box_memory_mb: PositiveInt = 4096  # a run's boxes
    box_pids: PositiveInt = 512
    box_disk_mb: PositiveInt = 2048
    # sandboxes that environments ask for, over all runs of this host; 0: four for each GiB of memory
    sandboxes_at_once: int = Field(default=0, ge=0, le=100_000)
    sandboxes_memory_mb: NonNegativeInt = 0  # memory and disk that they ask for; 0: 2048 for each of that number
    sandboxes_cpus: NonNegativeFloat = 0.0  # that they ask for; 0: any number
    sandboxes_of_a_run: PositiveInt = 256
    sandboxes_of_a_run_memory_mb: NonNegativeInt = 0  # 0: what the host has
    sandboxes_of_a_run_cpus: NonNegativeFloat = 0.0
    sandboxes_of_a_rollout: PositiveInt = 32
    sandboxes_of_a_rollout_memory_mb: NonNegativeInt = 65_536  # as 32 of the usual size ask for
    sandboxes_of_a_rollout_cpus: NonNegativeFloat = 0.0
    sandbox_most_cpus: PositiveFloat = 4.0  # of one, whatever is asked for; so with memory, disk and lifetime
    sandbox_most_memory_mb: PositiveInt = 4096
    sandbox_most_disk_mb: PositiveInt = 4096
    sandbox_most_lifetime_s: PositiveFloat = 24 * 3600.0
    sandbox_packages_mb: PositiveInt = 10_000  # of packages that sandboxes installed; and of repositories
    apt_mirrors: tuple[AptMirror, ...] = ()  # archives, HOST[/PATH][=URL]; empty: this host's own; ["none"]
    image_build_s: PositiveFloat = 1800.0  # of one step of a Dockerfile
    image_build_memory_mb: PositiveInt = 4096  # of a step's programs
    image_build_disk_mb: PositiveInt = 4096  # of what a step writes, which lies in memory on top of that
    image_layers_mb: PositiveInt = 10_000  # of layers that steps have written, to be used again
    call_limit: PositiveInt = 2000  # model calls of one rollout
    token_limit: PositiveInt = 50_000_000  # tokens of one rollout: of each call its whole prompt and its completion
    serve_runs: int = Field(default=4, ge=0, le=64)  # models served at once; they take no slot
    sandbox_runs: int = Field(default=64, ge=0, le=1000)  # sandboxes that users made, at once; they take no slot
    serve_host: str = "127.0.0.1"  # where served models and sandboxes listen
    serve_address: str = ""  # what the hub calls instead, when it is another host
    vllm_python: str = ""  # an interpreter that has vLLM; empty: the engine `vllm` is refused
    vllm_arguments: tuple[str, ...] = ()  # e.g. ["--dtype", "float32", "--enforce-eager"]
    wandb_python: str = ""  # an interpreter that has wandb; empty: the worker's own, if it has it
    engine_idle_s: PositiveFloat = 300.0  # an engine that nobody uses is ended after this
    engine_threads: PositiveInt = 1  # of the engine `torch`
    stall_s: PositiveFloat = 180.0  # a training run's learner or engine that is silent for longer is started anew
    stop_training_s: PositiveFloat = 600.0  # for a stopped training run's last step, its checkpoint and their upload
    # of those that CUDA_VISIBLE_DEVICES leaves: "all", "none", or indices and UUIDs: "0,2"
    gpus: Annotated[str, Field(pattern=r"^(all|none|[0-9A-Za-z-]+( *, *[0-9A-Za-z-]+)*)$", max_length=4000)] = "all"
    trace_rollouts: NonNegativeInt = 1000  # of an attempt at a run that have spans; after them one in a hundred
    trace_hosts: tuple[str, ...] = ()  # whose model endpoints are told the trace (traceparent): ["vllm.example.org"]
    # the Ray cluster for training runs of several hosts: HOST:PORT; "head": one that this worker starts; empty: none
    ray_address: Annotated[str, Field(pattern=r"^(|head|[\w.-]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5})$")] = ""
    ray_node: bool = False  # make this host a node of the cluster at HOST:PORT; false: Ray runs here already
    ray_port: int = Field(default=6390, ge=1, le=65535)  # of the head that this worker starts
    ray_host: str = (
        ""  # this host's address for the others of its cluster; empty: from which it reaches them, or the hub
    )
    ray_rollouts: bool = True  # whether runs of several hosts may have boxes here, beside the learner and engines
    ray_objects_mb: int = Field(default=0, ge=0)  # of Ray's object store here; 0: as Ray decides, a part of the memory
    log_format: LogFormat = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def hub(self) -> str:
        """The hub's address without a trailing slash."""
        return str(self.hub_url).rstrip("/")

    @property
    def cpus(self) -> int:
        """Processors that this process may use."""
        return len(os.sched_getaffinity(0))

    def folder(self, name: str) -> Path:
        """A directory of its own under `data`, made if need be."""
        path = (self.data / name).absolute()
        path.mkdir(parents=True, exist_ok=True)
        return path


def load() -> WorkerEnvironment:
    """Read the environment. Raises BadSettings."""
    try:
        return WorkerEnvironment()
    except ValidationError as error:
        problems = [f"{variable(problem['loc'])}: {problem['msg']}" for problem in error.errors()]
        raise BadSettings("; ".join(problems)) from error
    except SettingsError as error:
        raise BadSettings(f"{PREFIX}*: {error}") from error


def variable(location: tuple[int | str, ...]) -> str:
    """The environment variable of a field: ("slots", "eval") -> "WORKER_SLOTS.eval"."""
    head, *rest = [str(part) for part in location] or [""]
    return ".".join([PREFIX + head.upper(), *rest])
