"""MLflow's tracking server on the same Postgres, and as many clients that log rollouts in the two ways that it has.

As numbers: a run for each evaluation, `log_batch` with 1,000 metrics a call, the seven numbers of a rollout each as one
of them; what was said is nowhere. As traces: OTLP with as many rollouts a call as a segment of the hub has, each a
trace of one span that has what the model was asked and what it answered, the tokens with their logprobs, and the
numbers as attributes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psycopg
from envhub.packaging.segments import SEGMENT_ROLLOUTS
from envhub.protocol.evals.rollouts import RolloutRecord
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.bench.load.rollouts import NUMBERS, rollouts
from tests.bench.load.timings import Timings
from tests.e2e.stack import free_port
from tests.fakes.postgres_server import USER, PostgresServer

MOST_METRICS = 1000  # of one call, MLflow's own limit
START_S = 180.0
API = "/api/2.0/mlflow"
Log = Callable[[httpx.AsyncClient, str, Timings, float], Awaitable[float]]
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


async def log_rollouts(url: str, clients: int, seconds: float, log: Log) -> tuple[float, Timings]:
    """Rollouts a second, and each call's time."""
    timings = Timings()
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as http:
        made = await http.post(f"{API}/experiments/create", json={"name": log.__name__})
        experiment = made.raise_for_status().json()["experiment_id"]
        began = time.monotonic()
        counts = await asyncio.gather(*(log(http, experiment, timings, began + seconds) for _ in range(clients)))
        return sum(counts) / (time.monotonic() - began), timings


async def as_numbers(http: httpx.AsyncClient, experiment: str, timings: Timings, ends: float) -> float:
    """How many rollouts were logged."""
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
    return sent / NUMBERS


async def as_traces(http: httpx.AsyncClient, experiment: str, timings: Timings, ends: float) -> float:
    """How many rollouts were logged."""
    endless = rollouts(0)
    spans = [_span(next(endless)) for _ in range(SEGMENT_ROLLOUTS)]
    headers = {"Content-Type": "application/x-protobuf", "x-mlflow-experiment-id": experiment}
    sent = 0
    while time.monotonic() < ends:
        now = time.time_ns()
        for span in spans:
            span.trace_id, span.span_id = os.urandom(16), os.urandom(8)
            span.start_time_unix_nano, span.end_time_unix_nano = now - 10**9, now
        request = ExportTraceServiceRequest()
        request.resource_spans.add().scope_spans.add().spans.extend(spans)
        with timings.taken("v1/traces"):
            (await http.post("/v1/traces", content=request.SerializeToString(), headers=headers)).raise_for_status()
        sent += len(spans)
    return sent


def _span(record: RolloutRecord) -> Span:
    (turn,) = record.turns
    assert turn.tokens is not None
    texts = {
        "mlflow.spanType": json.dumps("LLM"),
        "mlflow.spanInputs": json.dumps(turn.request),
        "mlflow.spanOutputs": json.dumps(turn.response),
        "tokens": turn.tokens.model_dump_json(),
        "prompt_tokens": str(record.usage.prompt_tokens),
        "completion_tokens": str(record.usage.completion_tokens),
        "turns": str(len(record.turns)),
        "reward": str(record.reward),
        **{name: str(value) for name, value in record.metrics.items()},
    }
    span = Span(name="rollout")
    for key, text in texts.items():
        span.attributes.add(key=key).value.string_value = text
    return span
