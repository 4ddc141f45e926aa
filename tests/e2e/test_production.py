"""The main job in production's shape, while a hub process and a worker are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from envhub.protocol.runs import RunState

from infra.demo.processes import Role, kill
from tests.e2e import reversing
from tests.e2e.production import Production, running_production
from tests.run import postgres_problem, redis_problem

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.xdist_group("production")]


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Production]:
    """Two hubs and two workers on Postgres, Redis and S3."""
    if problem := postgres_problem() or redis_problem():
        pytest.skip(problem)
    with running_production(tmp_path_factory.mktemp("production")) as running:
        yield running


@pytest.fixture(scope="module")
def environment(production: Production) -> str:
    """reverse-text, ready."""
    return reversing.push_reverse_text(production)


def holder_of(production: Production) -> int:
    """The worker process above the only runner in a box."""
    living = {process.pid: process for process in production.living()}
    process = next((p for p in living.values() if p.is_a(Role.RUNNER)), None)
    while process is not None and not process.is_a(Role.WORKER):
        process = living.get(process.parent)
    assert process is not None, f"no worker has a runner:\n{production.log_tail()}"
    return process.pid


def test_a_killed_hub_and_a_killed_worker_cost_no_rollout(
    production: Production, environment: str, tmp_path: Path
) -> None:
    endpoint = reversing.slow_endpoint(0.8)
    model = production.register(endpoint)
    evaluation = reversing.start(production, environment, model, max_retries=5)
    stored = reversing.await_stored(production, evaluation.id)
    assert kill(production.pids(Role.WEB)[:1])
    stored = reversing.await_stored(production, evaluation.id, beyond=stored)
    endpoint.latency_s = 30.0  # it cannot end before its worker does
    assert kill([holder_of(production)])
    endpoint.latency_s = 0.1
    view = production.finished(evaluation.id)
    reversing.check_complete(production, view, tmp_path)
    assert view.state is RunState.SUCCEEDED
    with production.client() as hub:
        assert hub.runs.get(evaluation.run_id or "").attempt == 2
        path = hub.evaluations.export(evaluation.id, tmp_path / "all.parquet", format="parquet")
    assert parquet.read_table(path).num_rows == reversing.TOTAL


def test_cancelling_keeps_what_is_stored(production: Production, environment: str, tmp_path: Path) -> None:
    reversing.cancel_and_resume(production, environment, tmp_path)


def test_pip_installs_from_the_index_over_presigned_downloads(
    production: Production, environment: str, tmp_path: Path
) -> None:
    owner, name = environment.split("/")
    index = f"{production.url.replace('://', f'://any:{production.token}@')}/index/{owner}/simple/"
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-input", "--no-cache-dir", "--no-deps"]
    site = tmp_path / "site"
    subprocess.run([*pip, "--index-url", index, "--target", str(site), name], check=True, env=dict(os.environ))
    assert list(site.glob("reverse_text-*.dist-info"))
