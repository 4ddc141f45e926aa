"""What a worker tells the hub of the sandboxes that live in a run, and those that it ends for somebody there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from envhub.protocol.sandboxes.live import LiveReply, LiveReport

from tests.workers.broker.conftest import broker, make_broker, root
from workers.broker.broker import Broker
from workers.broker.interface import State, Wish
from workers.rollouts.live_sandboxes import OUTPUT, Teller

pytestmark = pytest.mark.sandbox
__all__ = ["broker", "make_broker", "root"]


class Hub:
    """Keeps what it is told; `end` is what it answers."""

    run_id = "run"

    def __init__(self) -> None:
        self.told: list[LiveReport] = []
        self.end: dict[str, str] = {}

    async def post(self, path: str, body: LiveReport, reply: type[LiveReply], **_: Any) -> LiveReply:
        self.told.append(body)
        return reply(end=self.end)


def teller(hub: Hub, broker: Broker) -> Teller:
    lease = SimpleNamespace(log=lambda text: None)
    return Teller(hub, lease, broker)  # type: ignore[arg-type]


async def test_those_that_live_are_told_until_none_does(broker: Broker) -> None:
    hub = Hub()
    telling = teller(hub, broker)
    await telling.tell()
    assert hub.told == []
    broker.begin_rollout("key", "example 3, rollout 0")
    async with broker.session() as session:
        machine = await session.create(Wish(image="here"), rollout="key")
        await machine.exec(["sh", "-c", f"echo here; yes | head -c {2 * OUTPUT}; exit 3"])
        await telling.tell()
        (item,) = hub.told[-1].items
        (command,) = item.last
        assert (item.id, item.rollout, item.image, item.state) == (
            machine.id,
            "example 3, rollout 0",
            "here",
            "running",
        )
        assert (command.exit_code, len(command.output), item.commands) == (3, OUTPUT, 1)
        process = await machine.start(["sleep", "60"])
        await telling.tell()
        assert [(each.line[:5], each.unfinished) for each in hub.told[-1].items[0].last] == [
            ("echo ", False),
            ("sleep", True),
        ]
        await process.signal(9)
    await telling.tell()
    await telling.tell()
    assert [report.living for report in hub.told] == [1, 1, 0]


async def test_who_ends_one_takes_it_from_its_rollout_as_the_host_would(broker: Broker) -> None:
    hub = Hub()
    async with broker.session() as session:
        machine, other = await session.create(Wish(image="here")), await session.create(Wish(image="here"))
        await machine.ready()
        hub.end = {machine.id: "alice", "long gone": "alice"}
        await teller(hub, broker).tell()
        assert (machine.state, machine.reason, machine.life.by_host) == (State.STOPPED, "alice has ended it", True)
        assert not other.state.final


async def test_what_one_waits_for_is_told(broker: Broker) -> None:
    hub = Hub()
    async with broker.session() as session:
        first = [await session.create(Wish(image="here")) for _ in range(4)]  # as many as the host of the tests has
        await asyncio.gather(*(machine.ready() for machine in first))
        await session.create(Wish(image="here"))
        while not (report := await told(hub, broker)).items[0].waits_for.startswith("room"):
            await asyncio.sleep(0.05)
        assert report.items[0].waits_for == "room on the worker: 4 of 4 sandboxes exist"
        assert [item.waits_for for item in report.items[1:]] == [""] * 4


async def told(hub: Hub, broker: Broker) -> LiveReport:
    await teller(hub, broker).tell()
    return hub.told[-1]
