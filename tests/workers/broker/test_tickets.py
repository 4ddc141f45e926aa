"""Owners and runs share the room of a host fairly, by what they ask for, and their processes may die at any time."""

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from workers.broker.room import Room
from workers.broker.tickets import Entangled, Party, Slip, Tickets, claim

ONE, OTHER = Room(1, 1, 1), Party("bob", "2")


class Worker:
    """Another process, see ticket_program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def hears(self, line: str) -> None:
        assert self._process.stdout is not None
        assert (await asyncio.wait_for(self._process.stdout.readline(), 20)).decode().strip() == line

    async def is_silent(self) -> bool:
        try:
            await asyncio.wait_for(self.hears("got"), 0.3)
        except TimeoutError:
            return True
        return False

    def give_back(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def worker(folder: Path, owner: str, run: str, *sizes: int) -> AsyncIterator[Worker]:
    """It takes tickets of these sizes from a host that has 4 MB."""
    program = ("-m", "tests.workers.broker.ticket_program", str(folder), "4", owner, run, *map(str, sizes))
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *program, stdin=pipes, stdout=pipes)
    try:
        one = Worker(process)
        await one.hears("asks")
        yield one
    finally:
        await one.kill()


async def test_a_ticket_that_is_given_back_goes_to_the_owner_who_has_none(tmp_path: Path) -> None:
    async with worker(tmp_path, "ada", "1", *(50 * [2])) as greedy:
        await greedy.hears("got")
        await greedy.hears("got")
        async with worker(tmp_path, "bob", "2", 2, 2) as modest:
            assert await modest.is_silent()
            greedy.give_back()
            await modest.hears("got")
            assert await modest.is_silent()  # each has one
            modest.give_back()
            await modest.hears("got")


async def test_tickets_of_a_process_that_is_killed_are_free_at_once(tmp_path: Path) -> None:
    async with worker(tmp_path, "ada", "1", *(50 * [2])) as greedy:
        await greedy.hears("got")
        await greedy.hears("got")
        async with AsyncExitStack() as stack:
            other = await stack.enter_async_context(worker(tmp_path, "bob", "2", 2, 2))
            await greedy.kill()
            await other.hears("got")
            await other.hears("got")


async def test_a_big_one_comes_before_small_ones_of_those_who_have_more(tmp_path: Path) -> None:
    async with worker(tmp_path, "ada", "1", *(50 * [1])) as small:
        for _ in range(4):
            await small.hears("got")
        async with worker(tmp_path, "bob", "2", 3) as big:
            assert await big.is_silent()
            for _ in range(2):
                small.give_back()
                assert await big.is_silent()
                assert await small.is_silent()  # what is given back is kept for the big one
            small.give_back()
            await big.hears("got")


async def test_small_ones_fit_beside_a_big_one(tmp_path: Path) -> None:
    async with worker(tmp_path, "ada", "1", 3) as big, worker(tmp_path, "bob", "2", 1, 1) as small:
        await big.hears("got")
        await small.hears("got")
        assert await small.is_silent()


def test_parts_of_a_cpu_that_fill_a_limit_fit() -> None:
    third = Room(1, 0, 0.8)
    assert Room(cpus=2.4).lacks(Room.sum([third, third]), third) == ""
    assert Room(cpus=2.4).lacks(Room.sum([third, third, third]), Room(1, 0, 0.1))


async def test_a_run_that_waits_for_itself_is_in_nobodys_way(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        host, said = Room(memory_mb=4), list[str]()
        bound = Tickets(tmp_path, host, Party("ada", "1"), own=Room(memory_mb=1))
        stack.callback(os.close, await bound.take(ONE))
        waiting = asyncio.create_task(bound.take(ONE, said.append))
        await asyncio.sleep(0.1)
        for _ in range(3):
            stack.callback(os.close, await asyncio.wait_for(Tickets(tmp_path, host, OTHER).take(ONE), 5))
        assert said[-1] == "others of its run to end: it asks for 1 of 1 MB of memory and disk, of which 1 are taken"
        waiting.cancel()


@pytest.mark.parametrize("own", [2, 9])
async def test_of_rollouts_that_wait_for_each_other_the_last_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: int
) -> None:
    monkeypatch.setattr("workers.broker.tickets.PATIENCE_S", 0.3)
    host, run = Room(sandboxes=2 if own > 2 else 9), Party("ada", "1")
    one, other = (Tickets(tmp_path, host, run, own=Room(sandboxes=own)) for _ in range(2))  # two processes
    first, second = await one.take(ONE, rollout="a"), await other.take(ONE, rollout="b")
    waits = [asyncio.create_task(one.take(ONE, rollout="c"))]  # has nothing: nobody waits for it
    waits += [asyncio.create_task(tickets.take(ONE, rollout=key)) for tickets, key in ((one, "a"), (other, "b"))]
    with pytest.raises(Entangled):
        await asyncio.wait_for(waits[2], 20)
    await asyncio.sleep(0.5)
    assert not waits[1].done(), "one of two gave up, which is enough"
    os.close(second)
    os.close(await asyncio.wait_for(waits[1], 20))  # before the one that has nothing, which asked earlier
    os.close(first)
    os.close(await asyncio.wait_for(waits[0], 20))
    assert not [path for path in tmp_path.glob("*/*") if path.parent.name != "living"]


async def test_other_runs_that_wait_do_not_keep_a_run_entangled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.broker.tickets.PATIENCE_S", 0.5)
    tickets = Tickets(tmp_path, Room(sandboxes=9), Party("ada", "1"), own=Room(sandboxes=1))
    first = await tickets.take(ONE, rollout="a")
    waiting = asyncio.create_task(tickets.take(ONE, rollout="a"))
    for _ in range(100):
        mark = tmp_path / "wanting" / Slip(OTHER, ONE, "b").name
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
        await asyncio.sleep(0.1)
        mark.unlink(missing_ok=True)
        if waiting.done():
            break
    with pytest.raises(Entangled):
        await waiting
    os.close(first)


@pytest.mark.parametrize("rollout", ["", "b"])
async def test_nobody_gives_up_while_somebody_who_waits_for_nothing_has_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rollout: str
) -> None:
    monkeypatch.setattr("workers.broker.tickets.PATIENCE_S", 0.1)
    tickets = Tickets(tmp_path, Room(sandboxes=2), Party("ada", "1"))
    first, second = await tickets.take(ONE, rollout="a"), await tickets.take(ONE, rollout=rollout)
    waiting = asyncio.create_task(tickets.take(ONE, rollout="a"))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    if not rollout:  # but not for ever, if it is nobody's who will end it
        monkeypatch.setattr("workers.broker.tickets.LONG_PATIENCE_S", 0.1)
        with pytest.raises(Entangled):
            await asyncio.wait_for(waiting, 20)
        waiting = asyncio.create_task(tickets.take(ONE, rollout="a"))
    os.close(second)
    os.close(await asyncio.wait_for(waiting, 20))
    os.close(first)


async def test_two_that_one_rollout_asks_for_at_once_wait_like_any_other(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        tickets = Tickets(tmp_path, Room(sandboxes=1), Party("ada", "1"))
        waits = [asyncio.create_task(tickets.take(ONE, rollout="a")) for _ in range(2)]
        done, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in left:
            one.cancel()
        await asyncio.wait(left)
        for one in done:
            os.close(one.result())
        stack.callback(os.close, await asyncio.wait_for(tickets.take(ONE), 20))


async def test_a_fault_of_the_host_reaches_all_that_ask(tmp_path: Path) -> None:
    (tmp_path / "living").write_text("no folder")
    tickets = Tickets(tmp_path, Room(), Party("ada", "1"))
    found = await asyncio.gather(*(tickets.take(ONE) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [FileExistsError] * 3
    (tmp_path / "living").unlink()
    os.close(await tickets.take(ONE))


async def test_who_cannot_be_given_a_ticket_hears_of_it_like_those_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tickets: Tickets, slip: Slip) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(Tickets, "_ticket", fail)
    tickets = Tickets(tmp_path, Room(), Party("ada", "1"))
    async with asyncio.timeout(20):
        found = await asyncio.gather(*(tickets.take(ONE) for _ in range(2)), return_exceptions=True)
    assert [type(one) for one in found] == [OSError] * 2


def test_the_runs_of_an_owner_share_what_the_owner_has() -> None:
    parties = [Party("ada", "1"), Party("ada", "2"), Party("bob", "3"), Party("cyd", "4")]
    living = [Slip(party, ONE) for party in (parties[0], parties[0], parties[1], parties[2])]
    waiting = [Slip(party, ONE) for party in parties]
    assert sorted(waiting, key=lambda one: claim(one, living, Room(sandboxes=9))) == waiting[::-1]


def test_the_scarcest_of_what_somebody_has_counts() -> None:
    living = [Slip(Party("ada", "1"), Room(1, 512, 1)), Slip(Party("bob", "2"), Room(1, 1, 4))]
    places = [claim(Slip(one.party, ONE), living, Room(100, 1024, 16)) for one in living]
    assert [place[:2] for place in places] == [(0.5, 0.5), (0.25, 0.25)]


def test_of_those_who_have_the_same_the_first_comes_first() -> None:
    first, second = Slip(Party("ada", "1"), ONE), Slip(OTHER, ONE)
    assert claim(first, [], Room()) < claim(second, [], Room())


async def test_the_mark_of_somebody_who_no_longer_waits_holds_nobody_up(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        tickets = Tickets(tmp_path, Room(sandboxes=3), Party("ada", "1"))
        stack.callback(os.close, await tickets.take(ONE))
        mark = tmp_path / "waiting" / Slip(Party("bob", "2"), ONE).name
        mark.touch()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tickets.take(ONE), 0.2)
        os.utime(mark, (0, 0))
        stack.callback(os.close, await asyncio.wait_for(tickets.take(ONE), 5))
        assert not mark.exists()
