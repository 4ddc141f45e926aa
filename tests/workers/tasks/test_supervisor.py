"""The supervisor's polls, with slots that it did not start."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from envhub.protocol.runs import ClaimableReply

from tests.fakes.hub import FakeHub
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.tasks import supervisor as module
from workers.tasks.slots import Slot
from workers.tasks.supervisor import Supervisor


class DeadlyHub(HubClient):
    """While it answers, one of the slots dies."""

    victim: Slot

    async def claimable(
        self, worker_id: str, queues: tuple[str, ...], *, free: Iterable[int] = (), busy: Iterable[int] = ()
    ) -> ClaimableReply:
        """Two runs."""
        self.victim._process = None  # as Slot.keep_alive leaves it
        return ClaimableReply(run_ids={"eval": ("r1", "r2")})


@pytest.fixture
async def process() -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    yield started
    started.kill()
    await started.communicate()


async def test_a_slot_that_dies_during_a_poll_is_given_no_run(
    tmp_path: Path, process: asyncio.subprocess.Process
) -> None:
    settings = WorkerEnvironment(data=tmp_path, token="hubw_good", slots={"eval": 2}, serve_runs=0)
    async with DeadlyHub("http://127.0.0.1:9", "hubw_good", patience_s=0) as hub:
        supervisor = Supervisor(settings, hub)
        hub.victim, living = supervisor._slots
        hub.victim._process = living._process = process
        await supervisor._poll("w1")
    assert (hub.victim.run_id, living.run_id) == (None, "r1")


@pytest.mark.parametrize(("patience", "warned"), [(60.0, False), (0.0, True)])
async def test_a_hub_that_only_starts_is_waited_for_without_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    patience: float,
    warned: bool,
) -> None:
    monkeypatch.setattr(module, "HUB_STARTS_S", patience)
    settings = WorkerEnvironment(data=tmp_path, token="hubw_good", slots={"eval": 1}, serve_runs=0)
    async with HubClient("http://127.0.0.1:9", "hubw_good", patience_s=0) as hub:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await Supervisor(settings, hub)._join()
    assert ("cannot join" in caplog.text) == warned


async def test_a_page_of_a_proxy_in_the_hubs_place_is_waited_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = WorkerEnvironment(data=tmp_path, token="hubw_good", slots={"eval": 1}, serve_runs=0)
    async with FakeHub(covered=True) as server, HubClient(server.url, "hubw_good", patience_s=0) as hub:
        joining = asyncio.create_task(Supervisor(settings, hub)._join())
        await asyncio.sleep(0.2)
        server.covered = False
        await joining
    assert "is not the hub's" in caplog.text
