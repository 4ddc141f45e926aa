"""Sends finished rollouts to the hub: a Parquet segment with its index rows at 256 rollouts or after 2 seconds.

Posting is idempotent on (evaluation, example, rollout): repeating a call after a lost answer stores nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from envhub.client.telemetry.tracing import span
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import SEGMENT_ROLLOUTS, fitting_segment, positions
from envhub.protocol.evals.evaluations import INLINE_BYTES, SegmentReply, SegmentRequest
from envhub.protocol.evals.rollouts import RolloutRecord

from workers.rollouts.json_memory import memory_of

SEGMENT_SECONDS = 2.0
# `add` waits at this number of rollouts or bytes, so that an unreachable hub does not fill our memory
WAITING_LIMIT, WAITING_BYTES = 2 * SEGMENT_ROLLOUTS, 256 * 1024**2
NUMBER_BYTES = 36  # of a token id or a log-probability: the object and the pointer to it
Upload = Callable[[bytes], Awaitable[str]]
Post = Callable[[SegmentRequest], Awaitable[SegmentReply]]


class Collector:
    """Collects finished rollouts and sends them. Leaving the context sends the rest, even if the body was cancelled."""

    def __init__(self, upload: Upload, post: Post, *, seconds: float = SEGMENT_SECONDS) -> None:
        self.total: int | None = None  # planned rollouts, once known
        self._upload = upload
        self._post = post
        self._seconds = seconds
        self._waiting: list[RolloutRecord] = []
        self._sizes: list[int] = []  # of those that wait
        self._full, self._sent = asyncio.Event(), asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep_sending())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        if self._task.done() and kind is None:
            self._task.result()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(self._task, return_exceptions=True)
        while self._waiting:
            await self._send()

    async def add(self, records: Sequence[RolloutRecord]) -> None:
        """Add finished rollouts; those of a group belong in one call. Raises the error that sending raised."""
        assert self._task is not None
        while not self._room.is_set():
            if self._task.done():
                break
            room = asyncio.ensure_future(self._room.wait())
            await asyncio.wait([room, self._task], return_when=asyncio.FIRST_COMPLETED)
            room.cancel()
        if self._task.done():
            self._task.result()
        self._waiting.extend(records)
        self._sizes.extend(map(size_of, records))
        if self._is_crowded:
            self._room.clear()
        if self._is_crowded or len(self._waiting) >= SEGMENT_ROLLOUTS:
            self._full.set()

    @property
    def _is_crowded(self) -> bool:
        return len(self._waiting) >= WAITING_LIMIT or sum(self._sizes) >= WAITING_BYTES

    async def flush(self) -> None:
        """Wait until the hub has everything added so far. Raises the error that sending raised."""
        assert self._task is not None
        while self._waiting:
            self._sent.clear()
            self._full.set()
            sent = asyncio.ensure_future(self._sent.wait())
            await asyncio.wait([sent, self._task], return_when=asyncio.FIRST_COMPLETED)
            sent.cancel()
            if self._task.done():
                self._task.result()

    async def _keep_sending(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._full.wait()
            self._full.clear()
            more = bool(self._waiting)
            while more:
                more = await self._send() or len(self._waiting) >= SEGMENT_ROLLOUTS

    async def _send(self) -> bool:
        """Send one segment; return whether it was full before it held everything.

        Records leave the waiting list only once the hub has them.
        """
        ready = self._waiting[:SEGMENT_ROLLOUTS]
        with span("store rollouts", {"envhub.rollouts": len(ready)}):
            batch, content = await asyncio.to_thread(fitting_segment, ready)
            small = len(content) <= INLINE_BYTES
            sha256 = hashlib.sha256(content).hexdigest() if small else await self._upload(content)
            await self._post(
                SegmentRequest(
                    sha256=sha256,
                    size=len(content),
                    content=content if small else None,
                    rows=index_rows(batch, positions(content)),
                    total_rollouts=self.total,
                )
            )
        del self._waiting[: len(batch)], self._sizes[: len(batch)]
        self._sent.set()
        if not self._is_crowded:
            self._room.set()
        return len(batch) < len(ready)


def size_of(record: RolloutRecord) -> int:
    """Return about how many bytes a rollout takes in memory."""
    own = (record.task, record.prompt, record.completion, record.extras, record.library)
    calls = ((turn.request, turn.response, turn.error) for turn in record.turns)
    tokens = (turn.tokens for turn in record.turns if turn.tokens is not None)
    numbers = sum(len(one.prompt_ids) + 2 * len(one.completion_ids) for one in tokens)
    texts = sum(sys.getsizeof(text) for turn in record.turns for text in turn.token_texts)
    commands = (command for sandbox in record.sandboxes for command in sandbox.commands)
    told = sum(500 + len(command.output) + sum(map(len, command.argv)) for command in commands)
    values = sum(memory_of(value) for values in (own, *calls) for value in values)
    return NUMBER_BYTES * numbers + texts + told + values
