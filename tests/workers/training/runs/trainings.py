"""Whole training runs against a fake hub: real boxes, the real torch engine and learner, a tiny model."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.base import BlobRef
from envhub.protocol.models.catalog import LocalTarget
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import Generation, GenerationEvidence
from envhub.protocol.runs import FinishRequest, RunKind
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics
from envhub.protocol.training.runs import EvalTarget, PolicyTarget, ResumeState, TrainPayload, TrainTarget

from tests.fakes.hub import FakeHub, FakeRun
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.training.run import run_training
from workers.venvs import interpreters

ROOT = Path(__file__).parents[4]
SAMPLES = ("reverse-text", "guess-number", "calculator-tool")
OWN = Path(__file__).parent / "packages"
VERIFIERS = "0.1.14"
BARELY_WARM = ("--steps", "60", "--hinted", "0")  # answers in letters, which is all that most of these tests need


def cache() -> Path:
    """Where test environments and models are kept between test runs."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "envhub-test-venvs"
    root = Path(os.environ.get("TEST_VENV_CACHE", default))
    root.mkdir(parents=True, exist_ok=True)
    return root


def digest_of(*folders: Path) -> str:
    """Changes with the Python files below."""
    content = b"".join(path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(content).hexdigest()[:16]


def installed() -> Path:
    """A virtual environment with verifiers, sample environments and the packages of these tests; made once."""
    packages = [ROOT / "environments" / name for name in SAMPLES] + sorted(OWN.iterdir())
    interpreter = interpreters.present()[0]
    folder = cache() / f"train-{VERIFIERS}-{interpreter.full}-{digest_of(*packages)}"
    with (folder.with_suffix(".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            uv = Path(sys.executable).with_name("uv")
            subprocess.run([uv, "venv", "-q", "--clear", "--python", interpreter.executable, folder], check=True)
            wanted = [f"verifiers=={VERIFIERS}", "datasets<4.7", *map(str, packages)]
            own = folder / "bin" / "python"
            subprocess.run([uv, "pip", "install", "-q", "--python", own, *wanted], check=True)
            # Boxes cannot keep bytecode: what a runner imports, a third of all, leaves it here.
            once = "import reverse_text; reverse_text.load_environment()"
            subprocess.run([own, "-c", once], check=True, capture_output=True)
            (folder / "ready").touch()
    return folder


def tiny_model(*options: str) -> Path:
    """hub/tiny; with other options of its warm-up, a lesser one. Made once."""
    source = ROOT / "workers" / "training" / "tiny"
    folder = cache() / "-".join(["tiny", *(option.strip("-") for option in options), digest_of(source)])
    with (folder.with_suffix(".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            command = [sys.executable, "-m", "workers.training.tiny", str(folder), *options]
            subprocess.run(command, check=True, cwd=ROOT)
    return folder


@dataclass
class Trainings:
    """Starts training runs of a fake hub on one worker's data directory."""

    hub: FakeHub
    data: Path
    model: Path
    settings: dict[str, Any] = field(default_factory=dict)

    def payload(self, *, environment: str = "reverse-text", **config: Any) -> TrainPayload:
        """What the hub would claim out."""
        asked: dict[str, Any] = {"model": "hub/tiny", "env": [{"id": f"alice/{environment}"}], **config}
        parsed = TrainingConfig.model_validate(asked)
        evaluations = parsed.eval.env if parsed.eval else ()
        return TrainPayload(
            training_id="tr",
            config=parsed,
            model=PolicyTarget(reference="hub/tiny", base=self.local(self.model)),
            environments=tuple(TrainTarget(config=one, **self.target(one)) for one in parsed.env),
            evaluations=tuple(EvalTarget(config=one, **self.target(one)) for one in evaluations),
        )

    def target(self, table: Any) -> dict[str, Any]:
        """An environment of the run."""
        name = table.reference.rpartition("/")[2]
        python = interpreters.present()[0].short
        return {
            "label": table.label,
            "environment": f"alice/{name}@0.1.0",
            "env_id": name,
            "module": name.replace("-", "_"),
            "evidence": GenerationEvidence(generation=Generation.LEGACY, specifier="", constraint_set="legacy"),
            "lock": EnvironmentLock(python=python, platform=interpreters.host_platform(), verifiers="", wheels=()),
        }

    def local(self, folder: Path) -> LocalTarget:
        """A model directory, stored in the hub."""
        files = {path.name: self.hub.store(path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()}
        return LocalTarget(
            fingerprint=hashlib.sha256(str(folder).encode()).hexdigest(),
            engine="torch",
            files={name: sha256 for name, (sha256, _) in files.items()},
            urls={name: url for name, (_, url) in files.items()},
        )

    def queue(self, payload: TrainPayload) -> FakeRun:
        """Queue a train run."""
        run = FakeRun(f"r{len(self.hub.runs)}", RunKind.TRAIN, payload=payload.model_dump(mode="json"))
        return self.hub.add(run)

    async def run(self, run: FakeRun, stop: asyncio.Event | None = None) -> FinishRequest | None:
        """Claim and execute it in this process."""
        chosen = {"heartbeat_seconds": 0.1, **self.settings}
        settings = WorkerEnvironment(data=self.data, hub_patience_s=60, **chosen)
        (self.data / "children").mkdir(exist_ok=True)
        async with HubClient(self.hub.url, "hubw_good", patience_s=60) as client:
            return await execute(client, self.hub.claim(run), run_training, settings, stop or asyncio.Event())

    async def finish(self, **config: Any) -> FinishRequest:
        """Queue, run, and give its end."""
        finish = await self.run(self.queue(self.payload(**config)))
        assert finish is not None
        return finish

    def steps(self) -> list[StepMetrics]:
        """Reported steps, in the order of their reports."""
        return [StepMetrics.model_validate(body["metrics"]) for what, body in self.hub.training if what == "steps"]

    def evaluations(self) -> list[EvaluationPoint]:
        """Reported evaluations."""
        found = [body["point"] for what, body in self.hub.training if what == "evaluations"]
        return [EvaluationPoint.model_validate(point) for point in found]

    def reports(self, what: str) -> list[dict[str, Any]]:
        """Bodies of one kind of report."""
        return [body for kind, body in self.hub.training if kind == what]

    def resume_state(self) -> ResumeState:
        """The newest uploaded checkpoint, as the hub hands it out."""
        report = self.reports("checkpoints")[-1]
        files = {
            name: BlobRef(sha256=sha256, size=len(self.hub.blobs[sha256]), url=f"{self.hub.url}/get/{sha256}")
            for name, sha256 in report["files"].items()
        }
        return ResumeState(checkpoint_id="c", step=report["step"], files=files)


@asynccontextmanager
async def opened(data: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Trainings]:
    """A hub that runs train with, on a worker that has their environment already."""
    venv = installed()

    async def ready(*_: object, **__: object) -> Path:
        return venv

    patch.setattr("workers.training.coordinator.sources.ensure_environment", ready)
    async with FakeHub(lease_seconds=30) as hub:
        yield Trainings(hub, data, tiny_model(*BARELY_WARM))
