"""An engine on several hosts, whose keepers are played: it starts, gets weights and ends as one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("ray")
from ray.exceptions import ActorDiedError

from workers.inference.policy_engine import PolicyEngineStart
from workers.inference.process import EngineDied
from workers.training.cluster.engine import Engine
from workers.training.cluster.keeper import Here
from workers.training.cluster.share import Actor, Share
from workers.training.learner.directory.run_dir import RunDir

SOON_S = 10


class Method:
    """What Ray makes of a method."""

    def __init__(self, remote: Any) -> None:
        self.remote = remote


@dataclass
class Played:
    """A keeper; its part answers, and ends, when it is told to."""

    number: int
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str | Exception = "the engine ended (-9)"
    started: PolicyEngineStart | None = None

    def __post_init__(self) -> None:
        self.start_engine, self.engine_ended = Method(self._start), Method(self._ended)
        self.stop = Method(self._stop)

    async def _start(self, start: PolicyEngineStart, ip: str) -> tuple[str, str]:
        self.started = start
        if self.number == 0:
            await self.answers.wait()
        return f"http://{ip}/v1", "key"

    async def _ended(self) -> str:
        await self.gone.wait()
        if isinstance(self.reason, Exception):
            raise self.reason
        return self.reason

    async def _stop(self, *, gently: bool) -> None:
        assert gently
        self.gone.set()


class Copies:
    """A share whose hosts have the run's files in folders of their own; the first is the coordinator's."""

    home = "n0"

    def __init__(self, root: Path) -> None:
        start = PolicyEngineStart(kind="vllm", directory=Path("/models/m"), name="policy")
        self.run, self.plan, self.brought = RunDir(root), SimpleNamespace(start=start), list[tuple[str, str, int]]()

    async def bring(self, directory: Path, name: str, actor: Actor, *, keep: int = 0) -> Path:
        self.brought.append((actor.here.node, name, keep))
        return directory if actor.here.node == self.home else Path(actor.here.root) / name


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


def made(copies: Copies, hosts: int) -> tuple[Engine, list[Played]]:
    """An engine on so many hosts."""
    played = [Played(number) for number in range(hosts)]
    places = [Here(f"n{one.number}", f"10.0.0.{one.number + 1}", f"/host-{one.number}/r", 29_500) for one in played]
    keepers = [Actor(one, here) for one, here in zip(played, places, strict=True)]
    return Engine(cast(Share, copies), keepers), played


async def up(engine: Engine, played: list[Played]) -> None:
    """Start it."""
    played[0].answers.set()
    assert await asyncio.wait_for(engine.start(), SOON_S) == ("http://10.0.0.1/v1", "key")


async def test_each_part_is_told_of_the_first_and_of_its_own_hosts_files(copies: Copies) -> None:
    engine, played = made(copies, 2)
    await up(engine, played)
    starts = [one.started for one in played]
    assert [str(start.directory) for start in starts if start] == ["/models/m", "/host-1/r/base"]
    parts = [start.part for start in starts if start and start.part]
    assert [(part.number, part.of, part.address, part.port) for part in parts] == [
        (0, 2, "10.0.0.1", 29_500),
        (1, 2, "10.0.0.1", 29_500),
    ]
    assert [part.root for part in parts] == [copies.run.root, Path("/host-1/r")]
    assert engine.hosts == "10.0.0.1, 10.0.0.2"


async def test_weights_come_to_every_host_and_have_one_name(copies: Copies) -> None:
    engine, _ = made(copies, 2)
    assert await engine.bring(copies.run.root / "weights/v000001", keep=2) == "weights/v000001"
    assert copies.brought == [("n0", "weights/v000001", 2), ("n1", "weights/v000001", 2)]


async def test_an_engine_of_one_host_has_no_part_and_is_told_the_whole_path(copies: Copies) -> None:
    engine, played = made(copies, 1)
    await up(engine, played)
    assert played[0].started is not None
    assert played[0].started.part is None
    directory = copies.run.root / "weights/v000001"
    assert await engine.bring(directory, keep=2) == str(directory)


async def test_a_part_that_ends_while_it_starts_is_not_waited_for(copies: Copies) -> None:
    engine, played = made(copies, 3)
    played[2].reason = "the engine ended (1): no memory"
    played[2].gone.set()
    with pytest.raises(EngineDied, match=r"part 2 on 10\.0\.0\.3: the engine ended \(1\): no memory"):
        await asyncio.wait_for(engine.start(), SOON_S)


@pytest.mark.parametrize("number", [0, 1])
async def test_any_parts_end_is_the_engines_and_ends_the_others(copies: Copies, number: int) -> None:
    engine, played = made(copies, 2)
    await up(engine, played)
    played[number].gone.set()
    reason = await asyncio.wait_for(engine.ended(), SOON_S)
    assert reason == f"part {number} on 10.0.0.{number + 1}: the engine ended (-9)"
    killed: list[Actor] = []
    for keeper in engine.keepers:
        keeper.kill = lambda keeper=keeper: killed.append(keeper)  # type: ignore[method-assign,misc]
    await engine.end()
    assert all(one.gone.is_set() for one in played)
    assert killed == engine.keepers


async def test_a_lost_host_is_told_as_such(copies: Copies) -> None:
    engine, played = made(copies, 2)
    await up(engine, played)
    played[1].reason = ActorDiedError()
    played[1].gone.set()
    with pytest.raises(ActorDiedError):
        await asyncio.wait_for(engine.ended(), SOON_S)
