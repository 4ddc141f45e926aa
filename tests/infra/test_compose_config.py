"""Docker Compose itself takes compose.yaml with what example.env says, for every profile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hub.config.environment import HubEnvironment
from tests.infra.tools import ROOT, TOOLS, needs_tools
from workers.settings import WorkerEnvironment

pytestmark = needs_tools
FILLED = {"HUB_SECRET_KEY": "x" * 32, "POSTGRES_PASSWORD": "hubhub", "MINIO_PASSWORD": "hubhubhub"}
ALWAYS = {"postgres", "redis", "minio", "bucket", "migrate", "hub", "sweeper"}


@pytest.fixture
def infra(tmp_path: Path) -> Path:
    """A copy with a filled in .env, which nobody else's settings reach."""
    shutil.copytree(ROOT / "infra/certificates", tmp_path / "certificates")
    for name in ("compose.yaml", "Caddyfile"):
        shutil.copy(ROOT / "infra" / name, tmp_path)
    text = (ROOT / "infra/example.env").read_text()
    for name, value in FILLED.items():
        text = text.replace(f"\n{name}=\n", f"\n{name}={value}\n")
    (tmp_path / ".env").write_text(text)
    return tmp_path


def compose(infra: Path, **env: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/nowhere", "HOME": str(infra), **env}
    command = [TOOLS / "docker-compose", "config", "--no-path-resolution"]
    return subprocess.run(command, cwd=infra, env=env, capture_output=True, text=True, check=False, timeout=30)


def config(infra: Path, profiles: str) -> dict[str, Any]:
    done = compose(infra, COMPOSE_PROFILES=profiles)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


@pytest.mark.parametrize(
    ("profiles", "more"),
    [("", set()), ("tls", {"proxy"}), ("tls,worker", {"proxy", "worker"}), ("gpu,worker", {"worker", "worker-gpu"})],
)
def test_each_profile_starts_what_it_says(infra: Path, profiles: str, more: set[str]) -> None:
    assert set(config(infra, profiles)["services"]) == ALWAYS | more


def test_the_example_starts_the_proxy(infra: Path) -> None:
    done = compose(infra)
    assert "proxy" in yaml.safe_load(done.stdout)["services"], done.stderr


def test_a_gpu_worker_gets_the_host_s_gpus_and_a_token_of_its_own(infra: Path) -> None:
    with (infra / ".env").open("a") as file:
        file.write("WORKER_TOKEN=hubw_cpu\nWORKER_GPU_TOKEN=hubw_gpu\nGPU_DEVICES=1\n")
    services = config(infra, "worker,gpu")["services"]
    (device,) = services["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "cdi", "device_ids": ["nvidia.com/gpu=1"], "capabilities": ["gpu"]}
    tokens = [services[name]["environment"]["WORKER_TOKEN"] for name in ("worker", "worker-gpu")]
    assert tokens == ["hubw_cpu", "hubw_gpu"]


@pytest.mark.parametrize("name", [*FILLED, "HUB_BASE_URL"])
def test_what_must_be_filled_in_is_named(infra: Path, name: str) -> None:
    path = infra / ".env"
    path.write_text(re.sub(rf"^{name}=.*$", f"{name}=", path.read_text(), flags=re.MULTILINE))
    done = compose(infra)
    assert done.returncode != 0
    assert name in done.stderr


def test_hub_and_workers_take_what_the_example_sets(infra: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = config(infra, "tls,worker,gpu")["services"]
    for key in [key for key in os.environ if key.startswith(("HUB_", "WORKER_"))]:
        monkeypatch.delenv(key)
    for name in ("migrate", "hub", "sweeper", "worker", "worker-gpu"):
        for key, value in services[name]["environment"].items():
            monkeypatch.setenv(key, value)
        if "worker" in name:
            assert WorkerEnvironment().serve_address == name
        else:
            assert str(HubEnvironment().base_url) == "https://hub.example.org/"
