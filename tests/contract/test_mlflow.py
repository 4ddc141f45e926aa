"""The MLflow exporter against the fake, and against MLflow's own server (matrix: it is installed for it)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from envhub.protocol.models.catalog import OutboundPolicy
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import EnvironmentStep, EvaluationPoint, StepMetrics
from envhub.protocol.training.trainer import MlflowTable

from tests.external_packages import python_with
from tests.fakes.mlflow import FakeMlflow
from workers.training.exporters.interface import RunInfo
from workers.training.exporters.mlflow import Mlflow

AT = datetime(2026, 1, 2, tzinfo=UTC)
RUN = RunInfo("0193-t1", "sort", {"model": "hub/tiny", "trainer": {"rank": 4}, "env": [{"id": "a/sort"}]})
HERE = OutboundPolicy(allow_loopback=True)


@contextmanager
def real_server(folder: Path) -> Iterator[str]:
    """MLflow's own, with its data in `folder`."""
    python = python_with("mlflow", folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = f"sqlite:///{folder}/mlflow.db"
    command = [python, "-m", "mlflow", "server", "--port", str(port), "--backend-store-uri", store, "--workers", "1"]
    with (folder / "mlflow.log").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=folder, start_new_session=True)
    try:
        for _ in range(1200):
            with suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.matrix)])
async def uri(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "real":
        with real_server(tmp_path) as found:
            yield found
    else:
        async with FakeMlflow() as fake:
            yield fake.uri


async def life(uri: str, steps: range, end: RunState) -> None:
    """One life of a run, which is given everything from step 1 on."""
    exporter = Mlflow(MlflowTable(tracking_uri=uri), {}, HERE)
    try:
        await exporter.start(RUN)
        for step in steps:
            environment = EnvironmentStep(reward_mean=step / 10)
            await exporter.step(StepMetrics(step=step, at=AT, environments={"it's: sort": environment}))
            await exporter.evaluation(EvaluationPoint(label="val", step=step, reward_mean=step / 10))
        await exporter.finish(end)
    finally:
        await exporter.close()


async def test_a_later_life_goes_on_with_the_run_and_doubles_no_step(uri: str) -> None:
    await life(uri, range(1, 3), RunState.QUEUED)
    await life(uri, range(1, 5), RunState.SUCCEEDED)
    api = f"{uri}/api/2.0/mlflow"
    async with httpx.AsyncClient() as http:
        asked = {"experiment_name": "environments-hub"}
        experiment = (await http.get(f"{api}/experiments/get-by-name", params=asked)).json()["experiment"]
        wanted = {"experiment_ids": [experiment["experiment_id"]], "filter": "tags.`envhub.training_id` = '0193-t1'"}
        (run,) = (await http.post(f"{api}/runs/search", json=wanted)).json()["runs"]
        assert (run["info"]["status"], run["info"]["run_name"]) == ("FINISHED", "sort")
        params = {param["key"]: param["value"] for param in run["data"]["params"]}
        assert params == {"model": "hub/tiny", "trainer.rank": "4", "env": '[{"id": "a/sort"}]'}
        for key in ("eval/val", "environments/it_s_ sort/reward_mean"):
            history: list[Any] = (
                await http.get(
                    f"{api}/metrics/get-history", params={"run_id": run["info"]["run_id"], "metric_key": key}
                )
            ).json()["metrics"]
            assert [(row["step"], row["value"]) for row in history] == [(n, n / 10) for n in range(1, 5)]
