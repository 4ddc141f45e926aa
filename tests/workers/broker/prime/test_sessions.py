"""Command sessions over Connect."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.fakes.sandboxes import FakeProcess
from tests.workers.broker.prime.service import Client, session_message, start_message
from workers.broker.interface import State
from workers.broker.prime import live
from workers.broker.prime.protobuf import blob_field, number_field


async def test_a_command_tells_its_output_and_then_its_end(client: Client) -> None:
    held = await client.create()
    events = await client.run(held, start_message("echo one; exit 3"))
    assert events == [("start", 1), ("stdout", b"one\n"), ("end", 3), ("last", {})]


async def test_a_command_is_ended_after_the_time_of_its_call(client: Client) -> None:
    held = await client.create()
    events = await client.run(held, start_message("echo one; exec sleep 60"), timeout_ms=100)
    assert events[-1] == ("error", "deadline_exceeded")
    assert (await held.processes[1].wait()).exit_code == 128 + signal.SIGKILL


async def test_a_command_ends_with_the_call_of_a_client_that_goes(client: Client) -> None:
    held = await client.create()
    async with client.stream(held, "Start", start_message("exec sleep 60")) as events:
        await anext(events)
    async with asyncio.timeout(5):
        result = await held.processes[1].wait()
    assert result.exit_code == 128 + signal.SIGKILL


async def test_a_command_whose_client_goes_while_it_is_started_ends(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, asked, gone = await client.create(), asyncio.Event(), asyncio.Event()
    begin = held.start

    async def start(*given: Any, **more: Any) -> FakeProcess:
        asked.set()
        await gone.wait()
        return await begin(*given, **more)

    monkeypatch.setattr(held, "start", start)
    async with asyncio.timeout(20):
        running = asyncio.create_task(client.run(held, start_message("exec sleep 60")))
        await asked.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.unary(held, "List", b"")  # the server has seen by then that the client has gone
        gone.set()
        while not held.processes:
            await asyncio.sleep(0.01)
        assert (await held.processes[1].wait()).exit_code == 128 + signal.SIGKILL


async def test_a_named_process_reads_what_is_sent_and_outlives_its_stream(client: Client) -> None:
    held = await client.create()
    async with client.stream(held, "Start", start_message("read a; echo $a; read b; echo $b", "u", True)) as events:
        await anext(events)
        status, _ = await client.unary(held, "SendInput", session_message("u", blob_field(2, blob_field(1, "x\n"))))
        assert (status, await anext(events)) == (200, ("stdout", b"x\n"))
    async with client.stream(held, "Connect", session_message("u")) as events:
        assert await anext(events) == ("start", 1)
        await client.unary(held, "SendInput", session_message("u", blob_field(2, blob_field(1, "y\n"))))
        assert [event async for event in events] == [("stdout", b"y\n"), ("end", 0), ("last", {})]


async def test_the_same_start_again_finds_the_process_and_another_is_refused(client: Client) -> None:
    held = await client.create()
    for _ in range(2):
        events = await client.run(held, start_message("exit 4", "u"))
        assert events[-2:] == [("end", 4), ("last", {})]
    assert await client.run(held, start_message("exit 5", "u")) == [("error", "failed_precondition")]
    assert len(held.processes) == 1


async def test_an_input_that_is_repeated_with_its_key_is_applied_once(client: Client) -> None:
    held = await client.create()
    async with client.stream(held, "Start", start_message("head -c 4", "u", True)) as events:
        await anext(events)
        for key, text in (("k1", "ab"), ("k1", "ab"), ("k2", "cd")):
            rest = blob_field(2, blob_field(1, text)) + blob_field(3, key)
            assert (await client.unary(held, "SendInput", session_message("u", rest)))[0] == 200
        told = [event async for event in events]
    assert b"".join(data for kind, data in told if kind == "stdout") == b"abcd"


async def test_a_signal_reaches_the_process(client: Client) -> None:
    held = await client.create()
    async with client.stream(held, "Start", start_message("exec sleep 60", "u")) as events:
        await anext(events)
        await client.unary(held, "SendSignal", session_message("u", number_field(2, signal.SIGTERM)))
        assert (await anext(events)) == ("end", 128 + signal.SIGTERM)


async def test_what_is_no_session_or_no_signal_is_refused(client: Client) -> None:
    held = await client.create()
    assert (await client.unary(held, "SendInput", session_message("none")))[0] == 404
    assert (await client.unary(held, "SendInput", b"\xff\xff"))[0] == 400
    async with client.stream(held, "Start", start_message("exec sleep 60", "u")) as events:
        await anext(events)
        assert (await client.unary(held, "SendSignal", session_message("u", number_field(2, 99))))[0] == 400


async def test_a_sandbox_that_ends_under_a_command_is_told_as_not_found(client: Client) -> None:
    held = await client.create()
    async with client.stream(held, "Start", start_message("exec sleep 60")) as events:
        await anext(events)
        await held.end(State.OUT_OF_MEMORY, "it used all its memory")
        assert await anext(events) == ("error", "not_found")
    assert await client.run(held, start_message("true")) == [("error", "not_found")]


async def test_output_that_nobody_reads_ends_the_stream_and_is_not_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "WAITING_LIMIT", 100_000)
    held = await client.create()
    async with client.stream(held, "Start", start_message("exec head -c 20000000 /dev/zero", "u")) as events:
        async with asyncio.timeout(20):
            await held.processes[1].wait()
        assert [event async for event in events][-1] == ("error", "resource_exhausted")
