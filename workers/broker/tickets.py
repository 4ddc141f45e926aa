"""Admit sandboxes to a host by what they ask for, across all worker processes, and decide who comes next.

A ticket is a locked file whose name says how much it stands for, so a process that dies gives back what it had with its
file descriptors; the next process that looks removes the files. Each waiting party keeps a mark file, which counts only
while its modification time is renewed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from workers.broker.room import Room
from workers.runs.file_lock import exclusive_lock

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.1
STALE_S = 3.0  # a mark not renewed for this many seconds belongs to a process that died or hangs
OnWait = Callable[[str], None]


@dataclass(frozen=True)
class Party:
    """The owner and run that tickets are taken for."""

    owner: str
    run: str


@dataclass(frozen=True)
class Slip:
    """What a ticket or a mark says in its file's name. `since` is when its party began to wait (monotonic, ns)."""

    party: Party
    room: Room
    since: int = field(default_factory=time.monotonic_ns)

    @property
    def name(self) -> str:
        room = f"{self.room.memory_mb:g}:{self.room.cpus:g}"
        return f"{self.party.owner}:{self.party.run}:{room}:{self.since}:{os.urandom(8).hex()}"

    @classmethod
    def of(cls, path: Path) -> Slip:
        """Read the name of a ticket or a mark."""
        owner, run, memory_mb, cpus, since, _ = path.name.split(":")
        return cls(Party(owner, run), Room(1, float(memory_mb), float(cpus)), int(since))


class Tickets:
    """Tickets below `folder` for at most `room` together, of which this process takes some for `party`, up to `own`.

    While several parties wait, the owner with the smallest share of the room goes first, then the run with the smallest
    among that owner's, then who waits longest. Nobody passes the first, however little they ask for, so that small
    sandboxes do not starve a big one. A party that has reached its own limit is in nobody's way. Within a process,
    requests are served in order.
    """

    def __init__(self, folder: Path, room: Room, party: Party, own: Room | None = None) -> None:
        self._living, self._waiting, self._mutex = folder / "living", folder / "waiting", folder / "mutex"
        self._party = party
        self._turn = asyncio.Lock()
        self.room = room
        self.own = own or Room()

    async def take(self, wanted: Room, on_wait: OnWait = lambda reason: None) -> int:
        """Wait for a ticket and return its file descriptor; closing the descriptor gives the ticket back.

        `on_wait` is told what it waits for. The limits must have room for `wanted` on its own.
        """
        slip = Slip(self._party, wanted)
        on_wait("others of its run, which came first")
        async with self._turn, self._mark(slip) as mark:
            pause = FIRST_PAUSE_S
            while True:
                async with exclusive_lock(self._mutex):
                    lacking = self._lacking(slip, mark)
                    if not lacking:
                        return self._ticket(slip)
                on_wait(lacking)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  jitter between processes
                pause = min(2 * pause, LONGEST_PAUSE_S)

    @asynccontextmanager
    async def _mark(self, slip: Slip) -> AsyncIterator[Path]:
        """Keep a mark file that shows that this party waits for room."""
        for folder in (self._living, self._waiting):
            folder.mkdir(parents=True, exist_ok=True)
        mark = self._waiting / slip.name
        try:
            yield mark
        finally:
            mark.unlink(missing_ok=True)

    def _lacking(self, slip: Slip, mark: Path) -> str:
        """Return what the slip waits for; "" if it may have a ticket now. Renews its mark if it waits for the host."""
        living = [Slip.of(path) for path in held(self._living)]
        mine = Room.sum(one.room for one in living if one.party == self._party)
        if lacking := self.own.lacks(mine, slip.room):
            mark.unlink(missing_ok=True)
            return f"others of its run to end: {lacking}"
        mark.touch()
        if lacking := self.room.lacks(Room.sum(one.room for one in living), slip.room):
            return f"room on the worker: {lacking}"
        place = claim(slip, living, self.room)
        if any(claim(Slip.of(path), living, self.room) < place for path in fresh(self._waiting) if path != mark):
            return "those of other runs, which come first"
        return ""

    def _ticket(self, slip: Slip) -> int:
        descriptor = os.open(self._living / slip.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor


def claim(slip: Slip, living: Sequence[Slip], room: Room) -> tuple[float, float, int]:
    """Return the shares of the room that a slip's owner and run have, and when it came; the smallest goes first."""
    of_owner = [one.room for one in living if one.party.owner == slip.party.owner]
    of_run = [one.room for one in living if one.party == slip.party]
    return room.share(Room.sum(of_owner)), room.share(Room.sum(of_run)), slip.since


def held(folder: Path) -> Sequence[Path]:
    """Return the locked files in a folder and remove the others. The caller must hold the mutex."""
    found = []
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found.append(path)
        else:
            path.unlink()
        finally:
            os.close(descriptor)
    return found


def fresh(folder: Path) -> Sequence[Path]:
    """Return the marks that count and remove stale ones. A process that was only slow creates its mark again."""
    found = []
    for path in folder.iterdir():
        try:
            renewed = path.stat().st_mtime
        except FileNotFoundError:
            continue  # its party no longer waits
        if renewed > time.time() - STALE_S:
            found.append(path)
        else:
            path.unlink(missing_ok=True)
    return found
