"""What a collector sends is what the hub takes."""

from __future__ import annotations

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
