"""A worker on Redis, as its operators meet it: Celery's own commands, events, a broker that goes away, drains."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery.events import EventReceiver
from envhub.protocol.runs import RunKind

from tests.e2e.stack import free_port
from tests.fakes.hub import FakeHub, FakeRun
from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.fakes.redis_server import RedisServer
from tests.workers.tasks.test_worker_process import ONE_SLOT, hanging, until, worker

NODE = "fleet-1"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
async def hub(redis: RedisServer) -> AsyncIterator[FakeHub]:
    async with FakeHub(lease_seconds=30, broker_url=redis.url) as server:
        yield server


@pytest.fixture
async def stub() -> AsyncIterator[PolicyEndpoint]:
    async with PolicyEndpoint() as server:
        yield server


async def inspect(hub: FakeHub, what: str) -> Any:
    """What the one worker answers to `celery inspect`."""
    replies = await asyncio.to_thread(getattr(hub.celery.control.inspect(timeout=1), what))
    (answer,) = (replies or {NODE: None}).values()
    return answer


async def test_celery_shows_a_run_with_its_kind_and_id(hub: FakeHub, stub: PolicyEndpoint, tmp_path: Path) -> None:
    async with worker(hub, tmp_path / "data", **ONE_SLOT, WORKER_NAME=NODE), watched(hub) as events:
        await until(lambda: any(event["type"] == "worker-heartbeat" for event in events))
        run = hanging(hub, stub, tmp_path)
        await until(lambda: run.state == "running")
        (active,) = await inspect(hub, "active")
        assert (active["name"], active["args"]) == ("run.x", [run.id])
        assert active["id"].startswith(run.id)
        stats = await inspect(hub, "stats")
        assert stats["pool"]["max-concurrency"] == 1
        run.cancel = True
        hub.celery.control.revoke(active["id"], terminate=True, signal="SIGUSR2")
        await until(lambda: run.state == "cancelled")
        await until(lambda: {"task-revoked", "task-succeeded"} <= {event["type"] for event in events})
    of_run = {event["type"]: event for event in events if event.get("uuid") == active["id"]}
    assert {"task-received", "task-started"} < set(of_run)
    assert of_run["task-received"]["name"] == "run.x"
    assert of_run["task-succeeded"]["result"] == "'cancelled'"


@pytest.fixture
def flower(redis: RedisServer, tmp_path: Path) -> Iterator[int]:
    """The port of a Flower from PyPI, beside our own packages."""
    packages, port = tmp_path / "flower", free_port()
    wanted = ["flower", "tornado", "prometheus_client", "humanize", "pytz"]
    install = [Path(sys.executable).with_name("uv"), "pip", "install", "-q", "--target", packages, "--no-deps"]
    subprocess.run([*install, *wanted], check=True)
    environment = {**os.environ, "PYTHONPATH": str(packages), "FLOWER_UNAUTHENTICATED_API": "true"}
    command = [sys.executable, "-m", "celery", f"--broker={redis.url}", "flower", f"--port={port}"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as running:
        yield port
        running.terminate()


@pytest.mark.matrix
async def test_flower_shows_a_run_with_its_kind_id_and_state(
    hub: FakeHub, stub: PolicyEndpoint, flower: int, tmp_path: Path
) -> None:
    async with worker(hub, tmp_path / "data", **ONE_SLOT, WORKER_NAME=NODE):
        await until(lambda: tasks_of(flower) == {}, 60)
        run = hanging(hub, stub, tmp_path)
        await until(lambda: run.state == "running")
        await until(lambda: states(flower) == ["STARTED"], 20)
        ((key, shown),) = tasks_of(flower).items()
        assert (key.startswith(run.id), shown["name"], run.id in shown["args"]) == (True, "run.x", True)
        run.cancel = True
        await until(lambda: states(flower) == ["SUCCESS"], 30)


def states(port: int) -> list[str]:
    """Of the tasks that Flower knows."""
    return [task["state"] for task in tasks_of(port).values()]


def tasks_of(port: int) -> dict[str, Any]:
    """What Flower's API says; an error while it starts."""
    try:
        found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{port}/api/tasks").raise_for_status().json()
    except httpx.HTTPError as error:
        return {"flower": {"state": str(error)}}
    return found


@asynccontextmanager
async def watched(hub: FakeHub) -> AsyncIterator[list[dict[str, Any]]]:
    """The events that Flower would see meanwhile."""
    events: list[dict[str, Any]] = []
    with hub.celery.connection() as connection:
        receiver = EventReceiver(connection, handlers={"*": events.append}, app=hub.celery)
        watching = asyncio.create_task(asyncio.to_thread(receiver.capture, wakeup=False))
        try:
            yield events
        finally:
            receiver.should_stop = True
            await watching


@pytest.mark.matrix
async def test_a_drained_queue_gets_no_more_until_it_is_opened_and_drops_messages_of_others(
    hub: FakeHub, tmp_path: Path
) -> None:
    async with worker(hub, tmp_path / "data", **ONE_SLOT):
        await until(lambda: hub.beats and hub.beats[-1].room.get("eval"))
        await asyncio.to_thread(hub.celery.control.cancel_consumer, "eval", reply=True)
        await until(lambda: not hub.beats[-1].room.get("eval"))
        run = hub.add(FakeRun("r1", kind=RunKind.SERVE))
        await asyncio.sleep(0.5)
        assert run.state == "queued"
        await asyncio.to_thread(hub.celery.control.add_consumer, "eval", reply=True)
        await asyncio.wait_for(run.done.wait(), 10)
        send_as_somebody_else(hub)
        other = hub.add(FakeRun("r2", kind=RunKind.SERVE))
        await asyncio.wait_for(other.done.wait(), 20)


def send_as_somebody_else(hub: FakeHub) -> None:
    """Messages that are not the hub's, to queues of the first worker."""
    with hub.celery.connection() as connection, connection.Producer() as producer:
        for body in ({"run": 1}, [["x" * 100], {}, {}], "nonsense"):
            for queue in ("eval.w1", "serve.w1"):
                producer.publish(body, routing_key=queue, headers={"task": "os.system", "id": str(uuid.uuid4())})


@pytest.mark.matrix
async def test_a_broker_that_dies_costs_no_run_and_shutdown_by_celery_gives_it_back(
    hub: FakeHub, redis: RedisServer, stub: PolicyEndpoint, tmp_path: Path
) -> None:
    run = hanging(hub, stub, tmp_path)
    slots = json.dumps({"eval": 2})
    async with worker(hub, tmp_path / "data", WORKER_SLOTS=slots) as process:
        await until(lambda: run.state == "running")
        redis.kill()
        await until(lambda: not any(hub.beats[-1].room.values()), 20)
        assert run.state == "running"
        redis.start()
        await until(lambda: hub.beats[-1].room.get("eval") == 1, 30)
        other = hub.add(FakeRun("r2", kind=RunKind.SERVE))
        await asyncio.wait_for(other.done.wait(), 20)
        assert (run.state, run.attempt) == ("running", 1)
        await asyncio.to_thread(hub.celery.control.shutdown)
        await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    assert run.finish is not None
    assert run.finish.state == "queued"


@pytest.mark.matrix
async def test_a_worker_may_be_ended_by_ctrl_c(hub: FakeHub, stub: PolicyEndpoint, tmp_path: Path) -> None:
    run = hanging(hub, stub, tmp_path)
    async with worker(hub, tmp_path / "data", **ONE_SLOT) as process:
        await until(lambda: run.state == "running")
        os.kill(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 20)
    assert run.finish is not None
    assert run.finish.state == "queued"
