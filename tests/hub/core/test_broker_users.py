"""Users of Redis for workers, over TLS: a whole life of a worker with one, and what it may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings
from envhub.protocol.runs import RunKind

from hub.config.environment import HubEnvironment
from hub.core import queue
from hub.core.broker_users import admit, dismiss, worker_url
from tests.fakes.hub import FakeHub, FakeRun
from tests.fakes.redis_server import RedisServer
from tests.workers.tasks.test_worker_process import ONE_SLOT, until, worker

OTHER = "01a20000-0000-7000-8000-000000000002"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis", "--requirepass", "secret", encrypted=True) as running:
        running.url = running.url.replace("//", "//:secret@")
        hub = settings.HUB.model_copy(update={"broker_url": running.url, "broker_acl": True})
        monkeypatch.setattr(settings, "HUB", hub)
        yield running


async def test_a_worker_lives_with_a_user_that_may_only_consume_its_own(server: RedisServer, tmp_path: Path) -> None:
    admit("w1", "digest")
    options = queue.broker_options(tmp_path, server.url, consumer="w1")
    hub = FakeHub(broker_url=worker_url("w1", "digest"), broker_options=options, broker_admin_url=server.url)
    async with hub, worker(hub, tmp_path / "data", **ONE_SLOT) as process:
        await until(lambda: hub.beats and hub.beats[-1].room.get("eval") and not hub.beats[-1].answer)
        run = hub.add(FakeRun("r1", kind=RunKind.SERVE))
        await asyncio.wait_for(run.done.wait(), 20)
        assert await asyncio.to_thread(hub.celery.control.inspect(timeout=2).active)
        server.kill()
        server.start()  # it has forgotten all users
        await until(lambda: not hub.beats[-1].room, 20)
        admit("w1", "digest")
        await until(lambda: hub.beats[-1].room.get("eval"), 40)
        again = hub.add(FakeRun("r2", kind=RunKind.SERVE))
        await asyncio.wait_for(again.done.wait(), 20)
        await asyncio.to_thread(hub.celery.control.shutdown)
        await asyncio.wait_for(process.communicate(), 20)


def test_what_it_may_not_do(server: RedisServer) -> None:
    admit("w1", "digest")
    admin = redis.Redis.from_url(server.url)
    with redis.Redis.from_url(worker_url("w1", "digest")) as own:
        own.lpush("eval.w1", "x")
        assert own.brpop("eval.w1") == (b"eval.w1", b"x")
        admin.lpush(f"eval.{OTHER}", "x")
        for command in (
            ("BRPOP", f"eval.{OTHER}", "1"),
            ("HGET", f"unacked.{OTHER}", "x"),
            ("LPUSH", f"eval.{OTHER}", "x"),
            ("PUBLISH", "/0.celery.pidbox", "shutdown"),
            ("KEYS", "*"),
            ("ACL", "LIST"),
            ("FLUSHALL",),
            ("CONFIG", "GET", "*"),
            ("SHUTDOWN",),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                own.execute_command(*command)
        dismiss(["w1"])
        with pytest.raises(redis.RedisError):
            own.llen("eval.w1")
    assert list(admin.execute_command("ACL", "USERS")) in ([b"default"], ["default"])


def test_a_user_for_a_broker_without_users_is_refused() -> None:
    with pytest.raises(ValueError, match="HUB_BROKER_ACL needs"):
        HubEnvironment(broker_acl=True, broker_url="")
