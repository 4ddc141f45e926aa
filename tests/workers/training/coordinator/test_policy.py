"""The policy's versions: who answers, what is unloaded when, and what happens while the engine is away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from envhub.protocol.base import JsonObject

from workers.inference.address import EngineAddress
from workers.inference.policy_engine import EngineRefused
from workers.rollouts.interceptor.answers import Answer, Route, UpstreamFailed
from workers.training.coordinator.policy import VersionedPolicy

HERE = Path("weights")


@dataclass
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
    versions.detach()
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

    second = Engine()
    versions = policy(second)
    await versions.attach(Dying())  # type: ignore[arg-type]
    await versions.advance(1, HERE)
    versions.detach()
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
    versions.detach()
    first.go.set()
    await exchange
    await versions.attach(second)  # type: ignore[arg-type]
    assert ((await asking).policy_version, second.told) == (1, ["replace weights"])


async def test_an_engine_that_lives_and_refuses_a_version_is() -> None:
    class Refusing(Engine):
        async def load_adapter(self, name: str, directory: Path) -> None:
            raise EngineRefused("no room")

    engine = Refusing()
    versions = policy(engine)
    await versions.attach(engine)  # type: ignore[arg-type]
    with pytest.raises(EngineRefused, match="no room"):
        await versions.advance(1, HERE)
