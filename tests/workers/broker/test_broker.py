"""Sandboxes of a run: how they come to be, what is kept of them, who ends them."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workers.broker.conftest import MakeBroker, OneImage
from workers.broker.broker import Broker
from workers.broker.interface import NeverFits, NotThere, State, TooMany, Wish
from workers.broker.life import Host
from workers.broker.limits import BrokerLimits
from workers.broker.machine import Machine
from workers.broker.room import Room
from workers.broker.surroundings import Around
from workers.broker.tickets import Party, Tickets
from workers.sandbox import Destination, Limits, backend
from workers.sandbox.box import AgentBox
from workers.sandbox.bwrap import BwrapSandbox
from workers.sandbox.cgroups import NONE
from workers.sandbox.doctor.own_image import OnImage, make_image

pytestmark = pytest.mark.sandbox
HERE = Wish(image="here")


async def test_a_command_is_run_in_the_image_and_recorded(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="here", env={"MINE": "2"}))
        result = await machine.exec(["sh", "-c", "echo $OF_THE_IMAGE $MINE; pwd; exit 3"])
        assert (result.exit_code, result.stdout) == (3, b"1 2\n/app\n")
        (command,) = machine.commands
        assert (command.exit_code, command.output, command.cwd) == (3, "1 2\n/app", "/app")
        assert command.seconds > 0


async def test_files_are_put_and_got_and_read_in_parts(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(HERE)
        await machine.put("a/b.txt", b"0123456789")
        assert await machine.get("/app/a/b.txt", 100) == b"0123456789"
        assert await machine.window("/app/a/b.txt", -4, 2) == (b"67", 10)


async def test_a_start_command_runs_on_and_its_output_is_the_log(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="here", start_command=("sh", "-c", "echo up; sleep 100")))
        await machine.exec(["sh", "-c", "until [ -d /proc/3 ]; do :; done; sleep 0.1"])
        assert machine.log() == b"up\n"
        assert machine.exit_code is None


async def test_a_started_command_reads_what_it_is_given(broker: Broker) -> None:
    heard: list[bytes] = []
    async with broker.session() as session:
        machine = await session.create(HERE)
        process = await machine.start(["cat"], stdin=True, on_output=lambda _, data: heard.append(data))
        assert machine.process(process.pid) is process
        await process.write(b"hello")
        await process.close_input()
        assert (await process.wait(10)).exit_code == 0
        assert (b"".join(heard), machine.process(process.pid)) == (b"hello", None)


async def test_a_started_command_may_have_a_terminal(broker: Broker) -> None:
    heard: list[bytes] = []
    async with broker.session() as session:
        machine = await session.create(HERE)
        process = await machine.start(
            ["sh", "-c", "stty size; read line; echo got $line"],
            terminal=(30, 90),
            on_output=lambda _, data: heard.append(data),
        )
        await process.write(b"it\n")
        await process.wait(10)
        assert sorted(b"".join(heard).split()) == [b"30", b"90", b"got", b"it", b"it"]


async def test_a_signal_reaches_a_started_command(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(HERE)
        process = await machine.start(["sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.05; done"])
        await asyncio.sleep(0.2)
        await process.signal(signal.SIGTERM)
        assert (await process.wait(10)).exit_code in (9, 143)


async def test_an_image_that_cannot_be_had_is_said_and_remembered(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="python:9"))
        with pytest.raises(NotThere, match="no image python:9"):
            await machine.ready()
        assert (machine.state, broker.lacking) == (State.FAILED, ["python:9"])
        assert not machine.life.by_host


async def test_the_end_of_a_rollout_ends_its_sandboxes_and_no_others(broker: Broker) -> None:
    async with broker.session() as session:
        mine, other = [await session.create(HERE, rollout=key) for key in ("a", "b")]
        await asyncio.gather(mine.ready(), other.ready())
        assert await broker.end_rollout("a") == [mine]
        assert (mine.state, other.state) == (State.STOPPED, State.RUNNING)
        assert session.find(mine.id) is None
        with pytest.raises(NotThere, match="its rollout has ended"):
            await mine.exec(["true"])


async def test_a_rollout_that_ends_gets_no_more_sandboxes(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(HERE, rollout="a")
        await machine.ready()
        ending = asyncio.create_task(broker.end_rollout("a"))
        while not machine.state.final:
            await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(NotThere, match="rollout has ended"):
                await session.create(HERE, rollout="a")
            await ending


async def test_a_session_ends_its_sandboxes_also_those_that_wait(broker: Broker) -> None:
    async with broker.session() as session:
        machines = [await session.create(HERE) for _ in range(6)]  # of which 4 find room
        await machines[0].ready()
    assert {machine.state for machine in machines} == {State.STOPPED}
    with pytest.raises(NotThere, match="has ended"):
        await session.create(HERE)


async def test_one_session_does_not_see_the_sandboxes_of_another(broker: Broker) -> None:
    async with broker.session() as first, broker.session() as second:
        machine = await first.create(HERE)
        assert first.find(machine.id) is machine
        assert second.find(machine.id) is None


async def test_limits_on_numbers_are_said(make_broker: MakeBroker) -> None:
    async with make_broker(BrokerLimits(at_once=2, of_a_rollout=Room(sandboxes=1))).session() as session:
        await session.create(HERE, rollout="a")
        with pytest.raises(TooMany, match="rollout already has 1"):
            await session.create(HERE, rollout="a")
        await session.create(HERE, rollout="b")
        with pytest.raises(TooMany, match="run has 2"):
            await session.create(HERE)


async def test_the_memory_and_cpus_of_a_rollout_are_limited(make_broker: MakeBroker) -> None:
    broker = make_broker(BrokerLimits(of_a_rollout=Room(memory_mb=300, cpus=2.5)))
    small, big, wide = (Wish(image="here", memory_mb=100, disk_mb=disk, cpus=cpus) for disk, cpus in SIZES)
    broker.begin_rollout("a", "example 0, rollout 0")
    async with broker.session() as session:
        await session.create(small, rollout="a")
        await session.create(small, rollout="b")
        with pytest.raises(TooMany, match=r"already has 1 sandbox: it asks for 200 of 300 MB .*, of which 150 are"):
            await session.create(big, rollout="a")
        with pytest.raises(NeverFits, match=r"too large for a rollout: it asks for 3 of 2\.5 .*_ROLLOUT_CPUS"):
            await session.create(wide, rollout="a")
        assert broker.refusal_of("a").startswith("the sandbox is too large")
        await broker.end_rollout("a")
        assert broker.refusal_of("a") == ""


SIZES = ((50, 1), (100, 1), (50, 3))


async def test_what_the_host_can_never_hold_is_refused_and_what_it_holds_later_waits(root: Path) -> None:
    image = make_image(root / "image")
    (image / "app").mkdir()
    tickets = Tickets(root / "tickets", Room(memory_mb=300), Party("ada", "1"))
    broker = Broker(Host(OnImage(backend("bwrap", root), image), OneImage(image), tickets, BrokerLimits()))
    wish = Wish(image="here", memory_mb=100, disk_mb=100)
    async with broker.session() as session:
        with pytest.raises(NeverFits, match=r"too large for this worker: it asks for 400 of 300 MB"):
            await session.create(replace(wish, memory_mb=300))
        first = await session.create(wish)
        await first.ready()
        second = await session.create(wish)
        await asyncio.sleep(0.2)
        room = "room on the worker: it asks for 200 of 300 MB of memory and disk, of which 200 are taken"
        assert (second.state, second.waits_for, first.waits_for) == (State.PENDING, room, "")
        await first.end()
        await second.ready()
        assert (second.state, second.waits_for) == (State.RUNNING, "")


def test_a_wish_above_a_limit_gets_the_limit() -> None:
    limits = BrokerLimits(most_memory_mb=100, most_disk_mb=50, most_lifetime_s=5, most_cpus=2)
    got = limits.of(Wish(memory_mb=10**9, disk_mb=10**9, lifetime_s=1e9, cpus=64))
    assert got == Limits(
        memory_bytes=150 * 1024**2, disk_bytes=50 * 1024**2, lifetime_seconds=5, cpus=2,
        pids=512, files=200_000, open_files=65_536, exec_seconds=600,
    )  # fmt: skip


async def test_who_sits_idle_is_ended(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="here", idle_s=0.2))
        await machine.exec(["sleep", "0.5"])  # is not idle
        assert machine.state is State.RUNNING
        await asyncio.sleep(0.6)
        assert (machine.state, machine.reason) == (State.TIMED_OUT, "its idle time was over")


async def test_a_box_whose_lifetime_ends_first_has_timed_out_too(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(HERE)
        box = await machine.life.ready()
        assert isinstance(box, AgentBox)
        box.expire()
        with pytest.raises(NotThere):
            await machine.exec(["sleep", "5"])
        assert (machine.state, machine.reason) == (State.TIMED_OUT, "its lifetime was over")


async def test_too_much_memory_is_the_sandboxes_own_doing(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="here", memory_mb=40, disk_mb=10))
        result = await machine.exec(["python3", "-c", "x = bytearray(10**9)"])
        assert result.oom_killed or result.exit_code
        assert not machine.life.by_host


async def test_who_kills_everything_from_within_is_not_taken_for_the_host(broker: Broker) -> None:
    machine = await ended_by(broker, "kill -9 -1")
    assert (machine.state, machine.life.by_host) == (State.FAILED, False)
    assert "from within" in machine.reason


async def test_a_sandbox_that_is_killed_from_outside_is_the_hosts_fault(broker: Broker, root: Path) -> None:
    async with broker.session() as session:
        machine = await session.create(HERE)
        await machine.ready()
        for pid in outer_processes(root):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(NotThere):
            await machine.exec(["sleep", "5"])
        assert (machine.state, machine.life.by_host) == (State.FAILED, True)


async def ended_by(broker: Broker, command: str) -> Machine:
    async with broker.session() as session:
        machine = await session.create(HERE)
        with pytest.raises(NotThere):
            await machine.exec(["sh", "-c", command], timeout=10)
        return machine


def outer_processes(root: Path) -> list[int]:
    """Of all boxes below that root."""
    return [json.loads(path.read_text())["pid"] for path in (root / "boxes").glob("*/box.json")]


async def test_a_living_sandbox_may_be_cut_off_from_hosts(broker: Broker) -> None:
    @asynccontextmanager
    async def around(wish: Wish, rollout: str) -> AsyncIterator[Around]:
        yield Around(network="allow-list", allow={Destination("127.0.0.1", 9), Destination("localhost", 9)})

    ask = ["python3", "-c", CONNECT]
    async with broker.session(around) as session:
        machine = await session.create(HERE)
        assert b"502 no connection" in (await machine.exec(ask)).stdout  # granted, and nobody listens there
        await machine.restrict(["localhost:9"])
        assert b"403 127.0.0.1:9 is not on this run's list" in (await machine.exec(ask)).stdout
        await machine.restrict(["127.0.0.1:9"])
        assert b"502 no connection" in (await machine.exec(ask)).stdout


CONNECT = """
import socket
stream = socket.create_connection(("127.0.0.1", 31981))
stream.sendall(b"CONNECT 127.0.0.1:9 HTTP/1.1\\r\\n\\r\\n")
print(stream.recv(1000))
"""


async def test_the_ports_on_which_programs_listen_are_free(broker: Broker) -> None:
    @asynccontextmanager
    async def around(wish: Wish, rollout: str) -> AsyncIterator[Around]:
        yield Around(network="allow-list", allow={Destination("localhost", 9)})

    async with broker.session(around) as session:
        machine = await session.create(HERE)
        listened = await machine.exec(["python3", "-c", LISTEN])
        assert (listened.exit_code, listened.stderr) == (0, b"")


LISTEN = """
import socket
for port in (3000, 5000, 5432, 7860, 8000, 8001, 8080, 8265, 8888, 9000, 11434, 30000):
    socket.create_server(("127.0.0.1", port))
"""


async def test_a_host_that_limits_no_cpu_makes_sandboxes_all_the_same(root: Path) -> None:
    image = make_image(root / "image")
    (image / "app").mkdir()
    sandbox = OnImage(BwrapSandbox(root, tree=NONE), image)
    host = Host(
        sandbox, OneImage(image), Tickets(root / "tickets", Room(sandboxes=1), Party("ada", "1")), BrokerLimits()
    )
    async with Broker(host).session() as session:
        machine = await session.create(Wish(image="here", cpus=2))
        assert (await machine.exec(["true"])).exit_code == 0


async def test_trouble_with_tidying_up_after_its_end_is_no_loss(broker: Broker) -> None:
    @asynccontextmanager
    async def around(wish: Wish, rollout: str) -> AsyncIterator[Around]:
        yield Around()
        raise OSError("the folder is busy")

    async with broker.session(around) as session:
        machine = await session.create(HERE)
        await machine.ready()
        await machine.end()
        assert (machine.state, machine.life.by_host) == (State.STOPPED, False)


async def test_two_ends_at_once_let_what_was_begun_be_tidied_up(broker: Broker) -> None:
    tidied = list[str]()

    @asynccontextmanager
    async def around(wish: Wish, rollout: str) -> AsyncIterator[Around]:
        try:
            await asyncio.Event().wait()
            yield Around()
        finally:
            await asyncio.sleep(0.1)
            tidied.append("all of it")

    async with broker.session(around) as session:
        machine = await session.create(HERE)
        await asyncio.sleep(0.2)
        first = asyncio.create_task(machine.end())
        await asyncio.sleep(0.02)
        await asyncio.gather(first, machine.end())
        assert tidied == ["all of it"]


async def test_one_with_too_little_memory_to_start_is_no_failure_of_the_host(broker: Broker) -> None:
    async with broker.session() as session:
        machine = await session.create(Wish(image="here", memory_mb=1, disk_mb=1))
        with pytest.raises(NotThere):
            await machine.ready()
        assert (machine.state, machine.life.by_host) == (State.OUT_OF_MEMORY, False)
        assert "more memory" in machine.reason
