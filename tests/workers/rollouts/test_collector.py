"""What a collector sends is what the hub takes."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from envhub.packaging import segments
from envhub.protocol.evals.evaluations import SegmentReply, SegmentRequest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord

from workers.rollouts import collector as collector_module
from workers.rollouts.collector import Collector


async def test_rollouts_that_do_not_fit_one_segment_go_in_several_the_large_ones_uploaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enough, posted = 500_000, list[SegmentRequest]()
    monkeypatch.setattr(segments, "ENOUGH_BYTES", enough)
    monkeypatch.setattr(collector_module, "INLINE_BYTES", enough)
    uploaded = set()

    async def upload(content: bytes) -> str:
        uploaded.add(sha256 := hashlib.sha256(content).hexdigest())
        return sha256

    async def post(request: SegmentRequest) -> SegmentReply:
        posted.append(request)
        return SegmentReply(stored=len(request.rows))

    noise = [hashlib.shake_256(bytes([example])).hexdigest(100_000) for example in range(10)]  # does not compress well
    async with Collector(upload, post) as collector:
        await collector.add(
            [
                RolloutRecord(example=example, rollout=0, example_hash="", outcome=Outcome.OK, library={"log": text})
                for example, text in enumerate(noise)
            ]
        )
        await collector.flush()
        await collector.add([RolloutRecord(example=10, rollout=0, example_hash="", outcome=Outcome.OK)])
    assert [len(request.rows) for request in posted] == [8, 2, 1]
    assert [row.example for request in posted for row in request.rows] == list(range(11))
    assert {request.sha256 for request in posted if request.content is None} == uploaded
    within = [request.content for request in posted if request.content is not None]
    assert len(uploaded) == 1
    assert max(map(len, within)) <= enough


async def test_large_rollouts_wait_for_those_before_them_to_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "WAITING_BYTES", 1000)
    sending, may_send = asyncio.Event(), asyncio.Event()

    async def post(request: SegmentRequest) -> SegmentReply:
        sending.set()
        await may_send.wait()
        return SegmentReply(stored=len(request.rows))

    async def upload(content: bytes) -> str:
        raise AssertionError("they are small")

    first, second = (
        RolloutRecord(example=example, rollout=0, example_hash="", outcome=Outcome.OK, library={"log": "x" * 1000})
        for example in range(2)
    )
    async with asyncio.timeout(20), Collector(upload, post) as collector:
        await collector.add([first])
        adding = asyncio.create_task(collector.add([second]))
        await sending.wait()
        assert not adding.done()
        may_send.set()
        await adding
