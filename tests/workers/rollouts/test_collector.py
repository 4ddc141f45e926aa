"""What a collector sends is what the hub takes."""

from __future__ import annotations

import hashlib

import pytest
from envhub.packaging import segments
from envhub.protocol.evals import SegmentReply, SegmentRequest
from envhub.protocol.rollouts import Outcome, RolloutRecord

from workers.rollouts.collector import Collector


async def test_rollouts_that_are_too_large_for_one_segment_go_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, posted = 40_000, list[SegmentRequest]()
    monkeypatch.setattr(segments, "MAX_SEGMENT_BYTES", limit)

    async def upload(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    async def post(request: SegmentRequest) -> SegmentReply:
        posted.append(request)
        return SegmentReply(stored=len(request.rows))

    noise = [hashlib.shake_256(bytes([example])).hexdigest(5000) for example in range(10)]  # does not compress well
    async with Collector(upload, post) as collector:
        await collector.add(
            [
                RolloutRecord(example=example, rollout=0, example_hash="", outcome=Outcome.OK, library={"log": text})
                for example, text in enumerate(noise)
            ]
        )
    assert max(request.size for request in posted) <= limit
    assert [row.example for request in posted for row in request.rows] == list(range(10))
