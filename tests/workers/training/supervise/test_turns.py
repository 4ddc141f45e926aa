"""Engine and learner in turns on one GPU: the engine sleeps, and nobody asks it, exactly while the learner works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.workers.training.coordinator.test_policy import HERE, Answers, Engine, settle
from workers.inference.policy_engine import EngineRefused
from workers.rollouts.interceptor.answers import Route
from workers.training.coordinator.policy import VersionedPolicy
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.directory.turn_files import write_token
from workers.training.learner.turns import turn
from workers.training.supervise.turns import Turns

pytestmark = pytest.mark.torch
SHARED = LearnerConfig(takes_turns=True, poll_seconds=0.01)


@dataclass(eq=False)
class SleepingEngine(Engine):
    """Notes its sleep; refuses what it is told to refuse."""

    asleep: bool = False
    refuses: str = ""
    stopped: bool = False

    async def sleep(self) -> None:
        self._do("sleep")
        self.asleep = True

    async def wake_up(self) -> None:
        self._do("wake_up")
        self.asleep = False

    def _do(self, what: str) -> None:
        self.told.append(what)
        if self.refuses == what:
            raise EngineRefused(what)

    async def stop(self, *, gently: bool = True) -> None:
        self.stopped, self.alive = True, False


@dataclass
class Scene:
    """A served policy whose engine takes turns with a learner in a thread."""

    run: RunDir
    engine: SleepingEngine = field(default_factory=SleepingEngine)

    def __post_init__(self) -> None:
        self.policy = VersionedPolicy("m", "policy", lambda _, model: Answers(model, self.engine), adapters=True)
        self.turns = Turns(self.run, self.policy)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        await self.policy.attach(self.engine)  # type: ignore[arg-type]
        await self.policy.advance(0, HERE)
        task = asyncio.create_task(self.turns.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def learn(self, *, times: int = 1, work: threading.Event | None = None) -> list[bool]:
        """Whether the engine slept during each of the learner's turns."""

        def learner() -> list[bool]:
            slept = []
            for _ in range(times):
                with turn(self.run, SHARED, lambda: None):
                    slept.append(self.engine.asleep)
                    if work is not None:
                        work.wait(30)
                    slept.append(self.engine.asleep)
            return slept

        return await asyncio.to_thread(learner)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(RunDir(tmp_path))


async def until_awake(scene: Scene) -> None:
    async with asyncio.timeout(30):
        while scene.engine.told[-1] != "wake_up":
            await asyncio.sleep(0.01)
    await settle()


async def test_the_engine_sleeps_during_every_turn_and_wakes_after(scene: Scene) -> None:
    async with scene.serving():
        assert await scene.learn(times=3) == [True] * 6
        await until_awake(scene)
        scene.engine.go.set()
        answer = await asyncio.wait_for(scene.policy.send(Route.CHAT, {}), 30)
    assert answer.policy_version == 0
    assert not scene.run.turn_wanted.exists()


async def test_a_turn_waits_for_requests_and_requests_wait_for_its_end(scene: Scene) -> None:
    work = threading.Event()
    async with scene.serving():
        early = asyncio.create_task(scene.policy.send(Route.CHAT, {}))
        await settle()
        learning = asyncio.create_task(scene.learn(work=work))
        while not scene.run.turn_wanted.exists():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert "sleep" not in scene.engine.told  # somebody still asks
        scene.engine.go.set()
        await asyncio.wait_for(early, 30)
        while not scene.run.turn_granted.exists():
            await asyncio.sleep(0.01)
        late = asyncio.create_task(scene.policy.send(Route.CHAT, {}))
        advancing = asyncio.create_task(scene.policy.advance(1, HERE))
        await asyncio.sleep(0.1)
        assert not late.done()
        assert scene.engine.told[-1] == "sleep"  # no adapter is loaded or unloaded meanwhile
        work.set()
        assert await learning == [True, True]
        await asyncio.wait_for(advancing, 30)
        assert (await asyncio.wait_for(late, 30)).policy_version in {0, 1}
    assert scene.engine.told[1:4] == ["sleep", "wake_up", "load policy-v000001"]


async def test_a_learner_that_dies_in_its_turn_gives_the_engine_back(scene: Scene) -> None:
    async with scene.serving():
        write_token(scene.run.turn_wanted, "dead")
        while not scene.run.turn_granted.exists():
            await asyncio.sleep(0.01)
        assert scene.engine.asleep
        scene.run.turn_wanted.unlink()  # as its keeper does
        await until_awake(scene)
    assert not scene.engine.asleep


async def test_an_old_grant_is_not_taken_for_a_new_one(scene: Scene) -> None:
    write_token(scene.run.turn_granted, "old")
    scene.engine.asleep = False
    async with scene.serving():
        assert await scene.learn() == [True, True]


@pytest.mark.parametrize("what", ["sleep", "wake_up"])
async def test_an_engine_that_does_not_obey_is_ended(scene: Scene, what: str) -> None:
    scene.engine.refuses = what
    async with scene.serving():
        await scene.learn()
        async with asyncio.timeout(30):
            while not scene.engine.stopped:
                await asyncio.sleep(0.01)
    assert scene.engine.told[-1] == what


async def test_no_engine_is_started_during_a_turn(scene: Scene) -> None:
    work = threading.Event()
    async with scene.serving():
        learning = asyncio.create_task(scene.learn(work=work))
        while not scene.run.turn_granted.exists():
            await asyncio.sleep(0.01)
        assert scene.turns.lock.locked()  # the keeper starts engines under it
        work.set()
        await learning
        async with asyncio.timeout(30), scene.turns.lock:
            assert not scene.engine.asleep


def test_a_learner_with_a_gpu_of_its_own_asks_nobody(tmp_path: Path) -> None:
    with turn(RunDir(tmp_path), LearnerConfig(), lambda: None):
        assert not list(tmp_path.iterdir())
