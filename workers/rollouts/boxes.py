"""Specifies the box for an environment: its virtual environment under a writable layer, runner, limits, grants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import envhub

from workers.sandbox.interface import Bind, BoxSpec, Destination, Limits, Network, Outside
from workers.settings import WorkerEnvironment
from workers.venvs.assembly import base_of
from workers.venvs.interpreters import exactly

RUNNER_MODULE = "envhub_runner"
RUNNER_PATH = f"/opt/envhub/{RUNNER_MODULE}"
RUNNER_SOURCE = Path(envhub.__file__).parent / "runner"
VENV_PATH = "/opt/venv"
PYTHON = f"{VENV_PATH}/bin/python"
# where an operator may install Playwright's browsers; every box sees the host's /usr
BROWSERS = Path("/usr/lib/playwright")
OPEN_FILES = 65_536  # per process, if the host allows it: packages with sandboxes refuse to start with fewer


def environment_box(
    venv: Path,
    sockets: Path,
    settings: WorkerEnvironment,
    *,
    python: str,
    network: Network = "gateway",
    allow: Sequence[str] = (),
    outside: Outside | None = None,
    lifetime_s: float | None = None,
) -> BoxSpec:
    """Specify a box for `venv`, which was made for Python `python`, such as "3.11".

    `allow` lists the granted "host:port" destinations; `outside` answers in place of all others.
    """
    prefix = exactly(python).prefix
    binds = [Bind(venv, VENV_PATH, layer=True), Bind(RUNNER_SOURCE, RUNNER_PATH)]
    if (base := base_of(venv)) is not None:
        binds.append(Bind(base, str(Path(VENV_PATH).with_name(base.name)), layer=True))
    if not prefix.is_relative_to("/usr"):  # every box has the host's /usr already
        binds.append(Bind(prefix, str(prefix)))
    return BoxSpec(
        binds=tuple(binds),
        sockets=sockets,
        network="allow-list" if allow else network,
        allow=tuple(map(Destination.of, allow)),
        outside=outside,
        limits=Limits(
            memory_bytes=settings.box_memory_mb * 1024**2,
            pids=settings.box_pids,
            disk_bytes=settings.box_disk_mb * 1024**2,
            open_files=OPEN_FILES,
            lifetime_seconds=lifetime_s or settings.run_limit_s,
        ),
        env={"PLAYWRIGHT_BROWSERS_PATH": str(BROWSERS)} if BROWSERS.is_dir() else {},
    )


def model_variables(gateway_url: str) -> dict[str, str]:
    """Return variables that lead a package's own clients (judges, data sets) to the interceptor; secrets override."""
    return {
        "OPENAI_BASE_URL": f"{gateway_url}/judge/v1",
        "OPENAI_API_KEY": "box",
        "ANTHROPIC_BASE_URL": f"{gateway_url}/judge",
        "ANTHROPIC_API_KEY": "box",
        "HF_ENDPOINT": f"{gateway_url}/hf",
        # the default of 10 s is too short: for a new repository the hub first fetches the list of files
        "HF_HUB_ETAG_TIMEOUT": "120",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # would fill the log
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",  # would send statistics to Hugging Face
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # would download a newer list of prices than its own
        "DO_NOT_TRACK": "1",
    }
