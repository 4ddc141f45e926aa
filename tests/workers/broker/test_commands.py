"""What was done in sandboxes is kept within bounds, however much that is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.workers.broker.conftest import SECRET, MakeBroker
from workers.broker import broker as module
from workers.broker.broker import Broker
from workers.broker.commands import KEPT, Commands, size_of
from workers.broker.interface import Command, NotThere, Wish
from workers.broker.limits import BrokerLimits

RAN = Command(("ls",), "/", datetime(2026, 1, 1, tzinfo=UTC), 0.5, 0, "x" * 1000)


def test_the_first_and_the_last_commands_are_kept_and_counted() -> None:
    commands = Commands()
    for _ in range(KEPT + 30):
        commands.add(RAN)
    assert (len(commands.all()), commands.dropped, commands.size) == (KEPT, 30, KEPT * size_of(RAN))
    commands.forget()
    assert (len(commands.all()), commands.dropped, commands.size) == (0, KEPT + 30, 0)


async def test_a_command_is_kept_without_the_runs_secrets_and_the_brokers_own_are_not_kept(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="here"))
        assert (await machine.exec(["sh", "-c", f"echo {SECRET}"])).stdout == f"{SECRET}\n".encode()
        await machine.exec(["true"], recorded=False)
        await (await machine.start(["true"], recorded=False)).wait()
        (command,) = machine.commands
    assert (command.argv, command.output) == (("sh", "-c", "echo ***"), "***")


async def test_what_a_sandboxs_end_cuts_off_is_kept(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="here"))
        waiting = asyncio.create_task(machine.exec(["sleep", "60"]))
        await machine.start(["sleep", "50"])
        abandoned = asyncio.create_task(machine.exec(["sleep", "40"]))
        while len(machine.commands) < 3:
            await asyncio.sleep(0.01)
        abandoned.cancel()
        await asyncio.wait([abandoned])
        await machine.end()
        with pytest.raises(NotThere):
            await waiting
        kept = {(one.argv[-1], one.unfinished, one.exit_code) for one in machine.commands}
    assert kept == {(seconds, True, 137) for seconds in ("60", "50", "40")}


async def test_of_too_much_that_was_done_the_oldest_is_forgotten(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RECORDED", 1500)
    async with make_broker(BrokerLimits()).session() as session:
        for _ in range(3):
            machine = await session.create(Wish(image="here"))
            await machine.exec(["head", "-c", "800", "/dev/zero"])
            await machine.end()
        await session.create(Wish(image="here"))
        kept = [(len(one.commands), one.commands_dropped) for one in session.all()]
    assert kept == [(0, 1), (0, 1), (1, 0), (0, 0)]
