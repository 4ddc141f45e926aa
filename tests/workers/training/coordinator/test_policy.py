"""The policy's versions: who answers, what is unloaded when, and what happens while the engine is away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from envhub.protocol.base import JsonObject
from envhub.protocol.runs import EngineCounts

from workers.inference.address import EngineAddress
from workers.inference.policy_engine import EngineRefused
from workers.rollouts.interceptor.answers import Answer, Route, UpstreamFailed
from workers.training.coordinator.policy import VersionedPolicy

HERE = Path("weights")


@dataclass(eq=False)
class Engine:
    """Remembers what it was told; its answers wait for `go`."""

    alive: bool = True
    address: EngineAddress = field(default_factory=lambda: EngineAddress("http://engine", "key"))
    told: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def process(self) -> Engine:
        return self

    async def healthy(self) -> bool:
        return self.alive

    async def stop(self, *, gently: bool = True) -> None:
        self.alive = False
        self.told.append("stop")

    async def bring(self, directory: Path) -> Path:
        return directory

    async def load_adapter(self, name: str, directory: Path) -> None:
        self.told.append(f"load {name}")

    async def unload_adapter(self, name: str) -> None:
        self.told.append(f"unload {name}")

    async def replace_weights(self, directory: Path) -> None:
        self.told.append(f"replace {directory}")


@dataclass
class Answers:
    model: str
    engine: Engine

    async def send(self, route: Route, body: JsonObject) -> Answer:
        await self.engine.go.wait()
        if not self.engine.alive:
            raise UpstreamFailed("gone")
        return Answer(body={"by": self.model})


def policy(engine: Engine, *, adapters: bool = True) -> VersionedPolicy:
    return VersionedPolicy("hub/tiny", "policy", lambda _, model: Answers(model, engine), adapters=adapters)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_carries_the_version_that_began_it_and_old_versions_go_when_unused() -> None:
    engine = Engine()
    versions = policy(engine)
    await versions.attach(engine)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    first = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    await versions.advance(1, HERE)
    second = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    assert "unload policy-v000000" not in engine.told
    engine.go.set()
    assert [(await task).policy_version for task in (first, second)] == [0, 1]
    await settle()
    assert engine.told == ["load policy-v000000", "load policy-v000001", "unload policy-v000000"]


async def test_full_weights_are_exchanged_while_nobody_asks() -> None:
    engine = Engine()
    versions = policy(engine, adapters=False)
    await versions.attach(engine)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    asking = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    exchange = asyncio.create_task(versions.advance(1, HERE))
    late = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    assert engine.told == []
    engine.go.set()
    assert (await asking).policy_version == 0
    await exchange
    assert (await late).policy_version == 1
    assert engine.told == ["replace weights"]


async def test_a_request_that_the_engines_end_cut_off_is_asked_again() -> None:
    first, second = Engine(), Engine()
    engines = iter([first, second])
    versions = VersionedPolicy("hub/tiny", "policy", lambda _, model: Answers(model, next(engines)), adapters=True)
    await versions.attach(first)  # type: ignore[arg-type]
    await versions.advance(3, HERE)
    asking = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    first.alive = False
    first.go.set()
    versions.detach(first)  # type: ignore[arg-type]
    await asyncio.sleep(0.3)
    assert not asking.done()
    second.go.set()
    await versions.attach(second)  # type: ignore[arg-type]
    assert (await asking).policy_version == 3
    assert second.told == ["load policy-v000003"]


async def test_an_engine_that_ends_while_it_loads_a_version_is_not_the_runs_end() -> None:
    class Dying(Engine):
        async def load_adapter(self, name: str, directory: Path) -> None:
            self.alive = False
            raise EngineRefused("ReadError")

    first, second = Dying(), Engine()
    versions = policy(second)
    await versions.attach(first)  # type: ignore[arg-type]
    await versions.advance(1, HERE)
    versions.detach(first)  # type: ignore[arg-type]
    await versions.attach(second)  # type: ignore[arg-type]
    assert (versions.version, second.told) == (1, ["load policy-v000001"])


async def test_an_engine_that_ends_while_full_weights_wait_for_its_requests_is_not_the_runs_end() -> None:
    first, second = Engine(), Engine()
    second.go.set()
    engines = iter([first, second])
    versions = VersionedPolicy("hub/tiny", "policy", lambda _, model: Answers(model, next(engines)), adapters=False)
    await versions.attach(first)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    asking = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    exchange = asyncio.create_task(versions.advance(1, HERE))
    await settle()
    first.alive = False
    versions.detach(first)  # type: ignore[arg-type]
    first.go.set()
    await exchange
    await versions.attach(second)  # type: ignore[arg-type]
    assert ((await asking).policy_version, second.told) == (1, ["replace weights"])


class Refusing(Engine):
    async def load_adapter(self, name: str, directory: Path) -> None:
        raise EngineRefused("no room")


class Cut(Refusing):
    """Its host did not answer for a moment."""

    async def healthy(self) -> bool:
        return False


async def test_an_engine_that_was_cut_off_while_it_got_a_version_is_ended() -> None:
    engine = Cut()
    versions = policy(engine)
    await versions.attach(engine)  # type: ignore[arg-type]
    await versions.advance(1, HERE)
    assert not engine.alive, "or it would serve nothing for ever"


async def test_an_engine_that_lives_and_refuses_a_version_is() -> None:
    engine = Refusing()
    versions = policy(engine)
    await versions.attach(engine)  # type: ignore[arg-type]
    with pytest.raises(EngineRefused, match="no room"):
        await versions.advance(1, HERE)


def replicas(*engines: Engine, adapters: bool = True) -> VersionedPolicy:
    """A policy whose upstreams answer for the engine whose address they are given."""
    by_address = {engine.address: engine for engine in engines}
    return VersionedPolicy(
        "hub/tiny", "policy", lambda address, model: Answers(model, by_address[address]), adapters=adapters
    )


def engine_at(number: int) -> Engine:
    return Engine(address=EngineAddress(f"http://engine-{number}", "key"))


async def test_every_engine_is_given_a_version_and_the_calls_are_spread() -> None:
    engines = [engine_at(number) for number in range(3)]
    versions = replicas(*engines)
    for engine in engines:
        await versions.attach(engine)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    asking = [asyncio.create_task(versions.send(Route.CHAT, {"messages": [{"content": str(n)}]})) for n in range(9)]
    await settle()
    assert [replica.calls for replica in versions._replicas.values()] == [3, 3, 3]
    for engine in engines:
        engine.go.set()
    assert {(await task).policy_version for task in asking} == {0}
    assert [engine.told for engine in engines] == [["load policy-v000000"]] * 3


async def test_what_a_vanished_engine_was_asked_is_asked_of_another() -> None:
    first, second = engine_at(1), engine_at(2)
    versions = replicas(first, second)
    await versions.attach(first)  # type: ignore[arg-type]
    await versions.advance(4, HERE)
    asking = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    await versions.attach(second)  # type: ignore[arg-type]
    second.go.set()
    versions.detach(first)  # type: ignore[arg-type]  # its host is gone: no connection is closed, nothing answers
    assert (await asyncio.wait_for(asking, 5)).policy_version == 4


async def test_an_engine_that_hangs_while_it_loads_a_version_holds_nobody_up_once_it_is_given_up() -> None:
    class Hanging(Engine):
        async def load_adapter(self, name: str, directory: Path) -> None:
            await asyncio.sleep(3600)

    hanging, second = Hanging(address=EngineAddress("http://hanging", "key")), engine_at(2)
    versions = replicas(hanging, second)
    for engine in (hanging, second):
        await versions.attach(engine)  # type: ignore[arg-type]
    second.go.set()
    advancing = asyncio.create_task(versions.advance(1, HERE))
    await settle()
    versions.detach(hanging)  # type: ignore[arg-type]
    await asyncio.wait_for(advancing, 30)
    assert (await versions.send(Route.CHAT, {})).policy_version == 1


@pytest.mark.parametrize("limit_s", [None, 60.0])
async def test_an_engine_that_refuses_what_another_takes_is_ended_and_asked_no_more(limit_s: float | None) -> None:
    refusing, other = Refusing(address=EngineAddress("http://refusing", "key")), engine_at(2)
    versions = replicas(refusing, other)
    await versions.attach(refusing, limit_s=limit_s)  # type: ignore[arg-type]
    await versions.attach(other)  # type: ignore[arg-type]
    await versions.advance(1, HERE)
    assert (refusing.told, other.told) == (["stop"], ["load policy-v000001"])
    assert versions.counts(2) == EngineCounts(starting=1, serving=1)


async def test_an_extra_engine_that_refuses_while_the_runs_own_are_away_is_not_the_runs_end() -> None:
    guest = Refusing()
    versions = policy(guest)
    await versions.attach(guest, limit_s=60.0)  # type: ignore[arg-type]
    await versions.advance(1, HERE)
    assert guest.told == ["stop"]


async def test_nobody_waits_for_weights_that_are_brought_to_a_new_engine() -> None:
    class Far(Engine):
        async def bring(self, directory: Path) -> Path:
            self.told.append(f"bring {directory}")
            await self.go.wait()
            return directory

    near, far = engine_at(1), Far(address=EngineAddress("http://far", "key"))
    versions = replicas(near, far)
    await versions.attach(near)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    joining = asyncio.create_task(versions.attach(far))  # type: ignore[arg-type]
    await settle()
    await asyncio.wait_for(versions.advance(1, HERE), 5)
    assert far.told == ["bring weights"]
    far.go.set()
    await joining
    assert far.told == ["bring weights", "load policy-v000001"]


@pytest.mark.parametrize("slow", ["bring", "load_adapter"])
async def test_an_extra_engine_that_takes_weights_slowly_is_given_up(slow: str) -> None:
    own, guest = engine_at(1), engine_at(2)
    setattr(guest, slow, lambda *_: asyncio.sleep(3600))
    versions = replicas(own, guest)
    await versions.attach(own)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    with pytest.raises(EngineRefused, match=r"it took longer than 0\.05 s"):
        await versions.attach(guest, limit_s=0.05)  # type: ignore[arg-type]
    await asyncio.wait_for(versions.advance(1, HERE), 5)


async def test_an_extra_engine_that_loads_a_version_slowly_is_ended() -> None:
    own, guest = engine_at(1), engine_at(2)
    versions = replicas(own, guest)
    await versions.attach(own)  # type: ignore[arg-type]
    await versions.attach(guest, limit_s=0.05)  # type: ignore[arg-type]
    guest.load_adapter = lambda name, directory: asyncio.sleep(3600)  # type: ignore[method-assign]
    await asyncio.wait_for(versions.advance(0, HERE), 5)
    assert (guest.told, versions.engines) == (["stop"], 1)


async def test_weights_that_the_learner_has_replaced_while_they_were_brought_are_no_failure() -> None:
    class Late(Engine):
        async def bring(self, directory: Path) -> Path:
            if directory == HERE:
                await self.go.wait()
                raise EngineRefused("no such directory")
            return directory

    late = Late()
    versions = policy(late)
    await versions.advance(0, HERE)
    joining = asyncio.create_task(versions.attach(late))  # type: ignore[arg-type]
    await settle()
    await versions.advance(1, Path("newer"))
    late.go.set()
    await joining
    assert late.told == ["load policy-v000001"]


async def test_extra_engines_are_not_counted_as_the_runs_own() -> None:
    guest = Engine()
    versions = policy(guest)
    await versions.attach(guest, limit_s=60.0)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    assert versions.counts(2) == EngineCounts(starting=2, serving=1)


async def test_a_caller_that_gives_up_is_not_asked_for_again() -> None:
    engine = engine_at(1)
    versions = replicas(engine)
    await versions.attach(engine)  # type: ignore[arg-type]
    await versions.advance(0, HERE)
    asking = asyncio.create_task(versions.send(Route.CHAT, {}))
    await settle()
    asking.cancel()
    versions.detach(engine)  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_engines_are_counted_with_the_versions_that_the_slowest_is_behind() -> None:
    slow, fast = engine_at(1), engine_at(2)
    versions = replicas(slow, fast)
    assert versions.counts(3) == EngineCounts(starting=3)
    for engine in (slow, fast):
        await versions.attach(engine)  # type: ignore[arg-type]
    await versions.advance(4, HERE)
    assert versions.counts(3) == EngineCounts(starting=1, serving=2)
    held = asyncio.Event()
    slow.load_adapter = lambda name, directory: held.wait()  # type: ignore[assignment,method-assign]
    advancing = asyncio.create_task(versions.advance(6, HERE))
    await settle()
    assert versions.counts(2) == EngineCounts(serving=2, behind=2)
    held.set()
    await advancing
    assert versions.counts(1) == EngineCounts(serving=2)
