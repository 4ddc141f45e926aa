"""The broker of a run: it opens a session for each box, keeps the boxes' sandboxes within the run's limits and ends
them.

broker = Broker(Host(sandbox, images, tickets, limits, surroundings))
async with broker.session() as session:
    held = await session.create(Wish(image="python:3.11-slim"), rollout=key)
    ...
events = await broker.end_rollout(key)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from workers.broker.interface import NeverFits, NotThere, State, TooMany, Wish
from workers.broker.life import Host
from workers.broker.machine import Machine
from workers.broker.room import NOTHING, Room
from workers.broker.surroundings import Surroundings
from workers.images.interface import ImageLacking

REMEMBERED_ROLLOUTS = 10_000
REMEMBERED = 1000  # ended sandboxes that a session keeps in memory
MOST_RECORDED = 128 * 1024 * 1024  # bytes of recorded commands that a session keeps for its ended sandboxes


class Broker:
    """The broker of one run. `asked` counts the sandboxes that were created or attempted."""

    def __init__(self, host: Host) -> None:
        self.asked = 0
        self._host = host
        self._sessions: set[BrokerSession] = set()
        self._lacking: dict[str, None] = {}
        self._titles: dict[str, str] = {}
        self._refusals: dict[str, str] = {}
        self._over: dict[str, None] = {}  # keys of rollouts that have ended, the last of them

    @property
    def lacking(self) -> Sequence[str]:
        """Return the images that were requested and could not be obtained."""
        self.remember(self.machines())
        return list(self._lacking)

    def remember(self, machines: Iterable[Machine]) -> None:
        """Keep what must outlive a session: the names of missing images."""
        self._lacking |= {one.life.lacking: None for one in machines if one.life.lacking}

    def machines(self) -> Sequence[Machine]:
        """Return the sandboxes of all open sessions."""
        return [machine for session in self._sessions for machine in session.all()]

    @asynccontextmanager
    async def session(self, surroundings: Surroundings | None = None) -> AsyncIterator[BrokerSession]:
        """Open a session for one box; its sandboxes end with it.

        `surroundings` replaces the host's default surroundings.
        """
        session = BrokerSession(self, replace(self._host, surroundings=surroundings or self._host.surroundings))
        self._sessions.add(session)
        try:
            yield session
        finally:
            session.is_over = True
            await end_all(session.all(), "who asked for it has ended")
            self.remember(session.all())
            self._sessions.discard(session)

    def begin_rollout(self, key: str, title: str) -> None:
        """Store the display title of a rollout until the rollout ends."""
        self._titles[key] = title

    def title_of(self, key: str) -> str:
        """Return the display title of a rollout, or "" if none was stored."""
        return self._titles.get(key, "")

    def refusal_of(self, key: str) -> str:
        """Return why a rollout's last refused request was beyond a limit; "" if none was."""
        return self._refusals.get(key, "")

    async def end_for(self, sandbox_id: str, person: str) -> bool:
        """End a sandbox on request of a person outside the run; return whether it still lived.

        The rollout is treated as if the host had lost the sandbox.
        """
        for machine in self.machines():
            if machine.id == sandbox_id and not machine.state.final:
                machine.life.by_host = True
                await machine.end(State.STOPPED, f"{person} has ended it")
                return True
        return False

    def of_rollout(self, key: str) -> Sequence[Machine]:
        """Return the sandboxes of a rollout, oldest first."""
        return sorted((one for one in self.machines() if one.rollout == key), key=lambda one: one.created)

    async def end_rollout(self, key: str) -> Sequence[Machine]:
        """End the sandboxes of a rollout and return all that it had, oldest first. It gets no more of them."""
        self._over[key] = None
        while len(self._over) > REMEMBERED_ROLLOUTS:
            self._over.pop(next(iter(self._over)))
        found = self.of_rollout(key)
        await end_all(found, "its rollout has ended")
        self.remember(found)
        self._titles.pop(key, None)
        self._refusals.pop(key, None)
        for session in self._sessions:
            session.forget(key)
        return found

    async def fetch(self, images: Iterable[str]) -> None:
        """Wait until these images are here, or are known not to be had."""
        for name in dict.fromkeys(images):
            with suppress(ImageLacking):
                async with self._host.images.using(name):
                    pass

    def refuse_more(self, wish: Wish, rollout: str) -> None:
        """Raise NotThere if the rollout has ended, NeverFits if some limit has no room for the wish, and TooMany if the
        run or the rollout has reached its limit.

        What lacks room on the host or in the run's memory and CPUs only now, waits.
        """
        if rollout in self._over:  # some task of its environment goes on: nobody would end what it makes
            raise NotThere("the sandbox's rollout has ended", state=State.STOPPED)
        living = [machine for machine in self.machines() if not machine.state.final]
        refusal = self._too_large(wish, rollout) or self._too_many_of(rollout, wish, living)
        if refusal is not None:
            if rollout in self._titles:  # other keys are the client's own
                self._refusals[rollout] = str(refusal)
            raise refusal
        limits = self._host.limits
        if len(living) >= limits.at_once:
            raise TooMany(f"this run has {len(living)} sandboxes already", f"end some, or {limits.more}")

    def _too_large(self, wish: Wish, rollout: str) -> NeverFits | None:
        limits, tickets = self._host.limits, self._host.tickets
        for limit, whose, settings in (
            (limits.of_a_rollout if rollout else Room(), "a rollout", "WORKER_SANDBOXES_OF_A_ROLLOUT"),
            (tickets.own, "a run", "WORKER_SANDBOXES_OF_A_RUN"),
            (tickets.room, "this worker", "WORKER_SANDBOXES"),
        ):
            if lacking := limit.lacks(NOTHING, limits.room_for(wish)):
                hint = f"ask for less, or have the operator raise {settings}_MEMORY_MB or {settings}_CPUS"
                return NeverFits(f"the sandbox is too large for {whose}: {lacking}", hint)
        return None

    def _too_many_of(self, rollout: str, wish: Wish, living: Sequence[Machine]) -> TooMany | None:
        limits = self._host.limits
        own = Room.sum(limits.room_for(machine.wish) for machine in living if machine.rollout == rollout)
        lacking = limits.of_a_rollout.lacks(own, limits.room_for(wish))
        if not (rollout and lacking):
            return None
        return TooMany(
            f"this rollout already has {own.sandboxes} sandbox{'es' if own.sandboxes > 1 else ''}: {lacking}",
            "end some, or have the operator raise WORKER_SANDBOXES_OF_A_ROLLOUT, ..._MEMORY_MB or ..._CPUS",
        )


class BrokerSession:
    """Implements interface.Session."""

    def __init__(self, broker: Broker, host: Host) -> None:
        self._broker = broker
        self._host = host
        self._machines: dict[str, Machine] = {}
        self.is_over = False

    async def create(self, wish: Wish, *, rollout: str = "") -> Machine:
        if self.is_over:  # nobody would end it
            raise NotThere("who asks for the sandbox has ended", state=State.STOPPED)
        self._broker.refuse_more(wish, rollout)
        self._broker.asked += 1
        machine = Machine(self._host, wish, rollout)
        self._machines[machine.id] = machine
        self._trim()
        return machine

    def find(self, sandbox_id: str) -> Machine | None:
        return self._machines.get(sandbox_id)

    def all(self) -> Sequence[Machine]:
        return list(self._machines.values())

    def forget(self, rollout: str) -> None:
        """Drop the sandboxes of a rollout that is over and whose record is kept elsewhere."""
        self._machines = {key: machine for key, machine in self._machines.items() if machine.rollout != rollout}

    def _trim(self) -> None:
        ended = [machine for machine in self._machines.values() if machine.state.final]
        too_many = max(0, len(ended) - REMEMBERED)
        for machine in ended[:too_many]:
            del self._machines[machine.id]
        recorded = sum(machine.recorded for machine in ended[too_many:])
        for machine in ended[too_many:]:
            if recorded <= MOST_RECORDED:
                break
            recorded -= machine.recorded
            machine.forget_commands()


async def end_all(machines: Sequence[Machine], reason: str) -> None:
    """End sandboxes concurrently."""
    await asyncio.gather(*(machine.end(State.STOPPED, reason) for machine in machines))
