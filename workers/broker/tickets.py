"""Admit sandboxes to a host by what they ask for, across all worker processes, and decide who comes next.

A ticket is a locked file whose name says how much it stands for, so a process that dies gives back what it had with its
file descriptors; the next process that looks removes the files. Each waiting party keeps a mark file, which counts only
while its modification time is renewed.

Rollouts that have a sandbox and wait for another may wait for each other. If all that have sandboxes do, the one that
began to wait last gives up, so that the others go on.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from workers.broker.room import Room
from workers.runs.file_lock import exclusive_lock

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.1
STALE_S = 3.0  # a mark not renewed for this many seconds belongs to a process that died or hangs
PATIENCE_S = 15.0  # for rollouts that seem to wait for each other: one may still end a sandbox that it uses
LONG_PATIENCE_S = 600.0  # if there are also sandboxes of no rollout, of a user or of a whole run, which may end
OnWait = Callable[[str], None]


@dataclass(frozen=True)
class Party:
    """The owner and run that tickets are taken for."""

    owner: str
    run: str


class Entangled(Exception):
    """Rollouts wait for each other's sandboxes, and this one gives up; or one waits for its own."""

    def __init__(self, lacking: str, *, alone: bool) -> None:
        if alone:
            super().__init__(f"only its own rollout's sandboxes were left to wait for, for {lacking}")
        else:
            super().__init__(f"its rollout and others that have sandboxes waited for each other, for {lacking}")


@dataclass(frozen=True)
class Slip:
    """What a ticket or a mark says in its file's name. `since` is when its party began to wait (monotonic, ns).

    `rollout` is a hash of the rollout's key, which is secret; "" for sandboxes of no rollout.
    """

    party: Party
    room: Room
    rollout: str = ""
    since: int = field(default_factory=time.monotonic_ns)

    @cached_property
    def name(self) -> str:
        room = f"{self.room.memory_mb}:{self.room.cpus}"
        return f"{self.party.owner}:{self.party.run}:{self.rollout}:{room}:{self.since}:{os.urandom(8).hex()}"

    @classmethod
    def of(cls, path: Path) -> Slip:
        """Read the name of a ticket or a mark."""
        owner, run, rollout, memory_mb, cpus, since, _ = path.name.split(":")
        return cls(Party(owner, run), Room(1, float(memory_mb), float(cpus)), rollout, int(since))


class Tickets:
    """Tickets below `folder` for at most `room` together, of which this process takes some for `party`, up to `own`.

    While several parties wait, the owner with the smallest share of the room goes first, then the run with the smallest
    among that owner's, then who waits longest. Nobody passes the first, however little they ask for, so that small
    sandboxes do not starve a big one. A party that has reached its own limit is in nobody's way. Within a run, rollouts
    that already have a sandbox go first, and otherwise who came first.
    """

    def __init__(self, folder: Path, room: Room, party: Party, own: Room | None = None) -> None:
        self._living, self._waiting, self._mutex = folder / "living", folder / "waiting", folder / "mutex"
        self._wanting = folder / "wanting"  # marks of those that wait although their rollout has a sandbox
        self._party = party
        self._asking: dict[Slip, Asking] = {}
        self._granting: asyncio.Task[None] | None = None
        self._entangled = Entanglement()
        self.room = room
        self.own = own or Room()

    async def take(self, wanted: Room, on_wait: OnWait = lambda reason: None, rollout: str = "") -> int:
        """Wait for a ticket and return its file descriptor; closing the descriptor gives the ticket back.

        `on_wait` is told what it waits for. The limits must have room for `wanted` on its own. Raises Entangled.
        """
        slip = Slip(self._party, wanted, sha256(rollout.encode()).hexdigest()[:16] if rollout else "")
        asking = self._asking[slip] = Asking(asyncio.get_running_loop().create_future(), on_wait)
        if self._granting is None or self._granting.done():
            self._granting = asyncio.create_task(self._grant())
        try:
            return await asking.ticket
        except asyncio.CancelledError:
            if asking.ticket.done() and not asking.ticket.cancelled() and asking.ticket.exception() is None:
                os.close(asking.ticket.result())  # it came too late
            raise
        finally:
            self._asking.pop(slip, None)
            if not self._asking and self._granting is not None:
                self._granting.cancel()
                self._granting = None

    async def _grant(self) -> None:
        """Give tickets to those that ask, one after the other, until nobody does."""
        marks, pause = Marks(), FIRST_PAUSE_S
        try:
            for folder in (self._living, self._waiting, self._wanting):
                folder.mkdir(parents=True, exist_ok=True)
            while self._asking:
                async with exclusive_lock(self._mutex):
                    granted = self._look(marks)
                pause = FIRST_PAUSE_S if granted else min(2 * pause, LONGEST_PAUSE_S)
                if not granted:
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  jitter between processes
        except Exception as error:  # noqa: BLE001  those that ask raise it
            for asking in self._asking.values():
                asking.fail(error)
        finally:
            marks.remove()

    def _look(self, marks: Marks) -> bool:
        """Give the first of those that ask its ticket, and return whether there is room for it."""
        living = [Slip.of(path) for path in held(self._living)]
        have = {one.rollout for one in living if one.rollout}
        first = min(self._asking, key=lambda slip: (slip.rollout not in have, slip.since))
        mine = [one for one in living if one.party == self._party]
        limit = self.own.lacks(Room.sum(one.room for one in mine), first.room)
        mark = self._waiting / first.name
        marks.forget(*(path for path in marks.kept if path.parent == self._waiting and (limit or path != mark)))
        lacking = f"others of its run to end: {limit}" if limit else self._lacking(first, living, mark, marks)
        if not lacking:
            marks.forget(mark, self._wanting / first.name)
            ticket = self._ticket(first)  # may fail; then those that ask hear of it, this one too
            self._asking.pop(first).grant(ticket)
            return True
        for slip, asking in self._asking.items():
            asking.on_wait(lacking if slip is first else "others of its run, which came first")
        self._disentangle(mine if limit else living, have, marks, lacking)
        return False

    def _lacking(self, slip: Slip, living: Sequence[Slip], mark: Path, marks: Marks) -> str:
        """Return what the slip waits for on the host; "" if it may have a ticket now."""
        marks.keep(mark)
        if lacking := self.room.lacks(Room.sum(one.room for one in living), slip.room):
            return f"room on the worker: {lacking}"
        place = claim(slip, living, self.room)
        if any(claim(Slip.of(path), living, self.room) < place for path in fresh(self._waiting) if path != mark):
            return "those of other runs, which come first"
        return ""

    def _disentangle(self, living: Sequence[Slip], have: Collection[str], marks: Marks, lacking: str) -> None:
        """If all that have sandboxes wait for each other, let the one that began to wait last give up."""
        wanting = {slip.name: slip for slip in self._asking if slip.rollout in have}
        marks.keep(*(self._wanting / name for name in wanting))
        if not wanting:
            return
        last = self._entangled.last(living, {path.name: Slip.of(path) for path in fresh(self._wanting)})
        if last in wanting:
            alone = all(one.rollout == wanting[last].rollout for one in living)
            self._asking[wanting[last]].fail(Entangled(lacking, alone=alone))

    def _ticket(self, slip: Slip) -> int:
        descriptor = os.open(self._living / slip.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor


@dataclass(frozen=True)
class Asking:
    """One that asks for a ticket."""

    ticket: asyncio.Future[int]
    on_wait: OnWait

    def grant(self, ticket: int) -> None:
        """Answer with a ticket, which goes back if nobody waits for it any more."""
        if self.ticket.done():
            os.close(ticket)
        else:
            self.ticket.set_result(ticket)

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        if not self.ticket.done():
            self.ticket.set_exception(error)


class Marks:
    """The mark files of a process, which renews them."""

    def __init__(self) -> None:
        self.kept: dict[Path, float] = {}  # when it was last renewed

    def keep(self, *paths: Path) -> None:
        """Make or renew marks."""
        now = time.monotonic()
        for path in paths:
            if now - self.kept.get(path, -STALE_S) > STALE_S / 3:
                path.touch()
                self.kept[path] = now

    def forget(self, *paths: Path) -> None:
        """Remove marks, if they are there."""
        for path in paths:
            if self.kept.pop(path, None) is not None:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all marks."""
        self.forget(*self.kept)


class Entanglement:
    """Notices that rollouts which have sandboxes wait for each other."""

    def __init__(self) -> None:
        self._seen: tuple[frozenset[Slip], frozenset[str]] = frozenset(), frozenset()
        self._since = 0.0

    def last(self, living: Sequence[Slip], wanting: Mapping[str, Slip]) -> str:
        """Return who has waited shortest if the rollouts of `living` have long waited for each other, else "".

        `wanting` are those on the host that wait although their rollout has a sandbox, by name.
        """
        have = {one.rollout for one in living if one.rollout}
        among = {name: one for name, one in wanting.items() if one.rollout in have}
        seen = frozenset(living), frozenset(among)
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        if not among or not have <= {one.rollout for one in among.values()}:
            return ""
        patience = PATIENCE_S if all(one.rollout for one in living) else LONG_PATIENCE_S
        if time.monotonic() - self._since < patience:
            return ""
        return max(among, key=lambda name: among[name].since)


def claim(slip: Slip, living: Sequence[Slip], room: Room) -> tuple[float, float, bool, int]:
    """Return how a slip stands among those that wait; the smallest goes first.

    The shares of the room that its owner and its run have, whether its rollout has no sandbox yet, and when it came.
    """
    of_owner = [one.room for one in living if one.party.owner == slip.party.owner]
    of_run = [one for one in living if one.party == slip.party]
    is_first = not slip.rollout or all(one.rollout != slip.rollout for one in of_run)
    return room.share(Room.sum(of_owner)), room.share(Room.sum(one.room for one in of_run)), is_first, slip.since


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
