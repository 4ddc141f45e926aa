"""MLflow's tracking server on the same Postgres, and as many clients that log rollouts as MLflow's users do: a run for
each evaluation, `log_batch` with 1,000 metrics a call, the seven numbers of a rollout each as one of them.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psycopg

from tests.bench.load.rollouts import NUMBERS
from tests.bench.load.timings import Timings
from tests.e2e.stack import free_port
from tests.fakes.postgres_server import USER, PostgresServer

MOST_METRICS = 1000  # of one call, MLflow's own limit
START_S = 180.0
API = "/api/2.0/mlflow"
KEYS = ("reward", "exact", "length", "prompt_tokens", "completion_tokens", "turns", "seconds")
assert len(KEYS) == NUMBERS


@contextmanager
def tracking_server(python: Path, postgres: PostgresServer, folder: Path) -> Iterator[tuple[str, int]]:
    """Its URL, and the process above its two, as many as the hub has."""
    admin = postgres.url.rpartition("/")[0] + "/postgres"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS mlflow")
        connection.execute("CREATE DATABASE mlflow")
    port, store = free_port(), f"postgresql+psycopg2://{USER}@{postgres.host}/mlflow"
    options = [
        "--backend-store-uri",
        store,
        "--default-artifact-root",
        str(folder),
        "--port",
        str(port),
        "--workers",
        "2",
    ]
    command = [str(python), "-m", "mlflow", "server", *options]
    with (folder / "mlflow.log").open("wb") as log:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], stdout=log, stderr=log)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while not _answers(url):
            gone = process.poll() is not None or time.monotonic() > deadline
            assert not gone, (folder / "mlflow.log").read_text()[-2000:]
            time.sleep(0.5)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/health", trust_env=False).status_code == 200
    return False


async def log_rollouts(url: str, clients: int, seconds: float) -> tuple[float, Timings]:
    """Rollouts a second, and each call's time."""
    timings = Timings()
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as http:
        made = await http.post(f"{API}/experiments/create", json={"name": "load"})
        experiment = made.raise_for_status().json()["experiment_id"]
        began = time.monotonic()
        counts = await asyncio.gather(*(_client(http, experiment, timings, began + seconds) for _ in range(clients)))
        return sum(counts) / NUMBERS / (time.monotonic() - began), timings


async def _client(http: httpx.AsyncClient, experiment: str, timings: Timings, ends: float) -> int:
    body = {"experiment_id": experiment, "start_time": int(1000 * time.time())}
    run = (await http.post(f"{API}/runs/create", json=body)).raise_for_status().json()["run"]["info"]["run_id"]
    sent, step = 0, 0
    while time.monotonic() < ends:
        now, metrics = int(1000 * time.time()), []
        for _ in range(MOST_METRICS // NUMBERS):
            metrics += [{"key": key, "value": step % 97 / 97, "timestamp": now, "step": step} for key in KEYS]
            step += 1
        with timings.taken("log-batch"):
            (await http.post(f"{API}/runs/log-batch", json={"run_id": run, "metrics": metrics})).raise_for_status()
        sent += len(metrics)
    return sent
