"""The trial rollout's check: passed, failed, or what it asked for and has not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord, Turn
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.registry.packages import Check, Generation
from envhub.protocol.runner import Described, Group, Hello, RolloutDone, SplitInfo
from envhub.protocol.runs import FailureKind

from workers.broker.broker import Broker
from workers.broker.interface import Wish
from workers.broker.life import Host
from workers.broker.limits import BrokerLimits
from workers.broker.room import Room
from workers.broker.tickets import Party, Tickets
from workers.builds.record import Record
from workers.builds.trying.scripted import MOST_BYTES, run_scripted, shown
from workers.images.interface import Image
from workers.rollouts import sandbox_use
from workers.rollouts.interceptor.recorder import Caps
from workers.rollouts.interceptor.scripted import Scripted
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.unmet import Unmet

HELLO = Hello(generation=Generation.LEGACY, verifiers="0.1.14", python="3.11.7", env_class="E")


class Lease:
    """What a record writes to."""

    def log(self, text: str) -> None: ...

    def masked(self, text: str) -> str:
        return text


@dataclass
class OneRollout:
    """A runner whose rollout ends as it is told."""

    failure: RolloutFailure | None = None
    needs: tuple[Need, ...] = ()
    asks_judge: str = ""
    calls: int = 0
    interceptor: Interceptor = field(default_factory=lambda: Interceptor(Scripted()))
    broker: Broker | None = None

    async def run(self, group: Group) -> AsyncIterator[RolloutDone]:
        if self.asks_judge:
            self.interceptor.judges_lacking[self.asks_judge] = None
        recorder = self.interceptor._recorders[group.policy.keys[0]]
        turn = Turn(index=0, protocol="chat", model="hub/scripted", request={}, response={})
        for _ in range(self.calls):
            async with recorder.call():
                recorder.turns.append(turn)
        outcome = Outcome.OK if self.failure is None else Outcome.FAILED
        record = RolloutRecord.model_validate(
            {"example": 0, "rollout": 0, "example_hash": "0" * 64, "outcome": outcome, "reward": None}
            | ({"failure": self.failure.model_dump()} if self.failure else {})
        )
        yield RolloutDone(id=group.id, record=record, needs=self.needs)

    async def check(self, size: int = 1) -> Check:
        record: Any = Record(Lease())  # type: ignore[arg-type]
        described = Described(env_class="E", splits={"eval": SplitInfo(size=size)})
        await run_scripted(self, HELLO, described, Unmet(self.interceptor, self.broker), record)  # type: ignore[arg-type]
        (check,) = record.checks
        assert isinstance(check, Check)
        return check


def failed(kind: FailureKind, message: str) -> RolloutFailure:
    return RolloutFailure(kind=kind, type="SomeError", message=message)


async def test_a_rollout_that_ends_passes_and_one_without_examples_is_no_failure() -> None:
    assert (await OneRollout().check()).passed
    assert (await OneRollout().check(size=0)).passed


async def test_a_rollout_that_breaks_is_a_failed_check() -> None:
    check = await OneRollout(failed(FailureKind.ENVIRONMENT, "division by zero")).check()
    assert check.failed
    assert "division by zero" in check.summary


@pytest.mark.parametrize("failure", [None, failed(FailureKind.JUDGE, "no judge")])
async def test_a_judge_that_was_asked_for_is_a_need_though_the_reward_may_hide_it(
    failure: RolloutFailure | None,
) -> None:
    check = await OneRollout(failure, asks_judge="gpt-4.1-mini").check()
    assert [(need.kind, need.name) for need in check.needs] == [(NeedKind.JUDGE, "gpt-4.1-mini")]
    assert not check.failed


async def test_what_the_runner_says_that_a_failed_rollout_lacked_is_a_need() -> None:
    needs = (Need(kind=NeedKind.SANDBOX, name="*"), Need(kind=NeedKind.SECRET, name="no name"))
    check = await OneRollout(failed(FailureKind.INFRASTRUCTURE, "no sandbox"), needs).check()
    assert [(need.kind, need.name) for need in check.needs] == [(NeedKind.SANDBOX, "*")]
    assert "needs sandbox: no sandbox" in check.summary


async def test_a_file_that_a_failed_rollout_asked_for_in_vain_is_a_need() -> None:
    failure = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="Error", message="curl: (52) Empty reply from server")
    rollout = OneRollout(failure)
    rollout.interceptor.files_lacking["GET", "https://tools.example.org/install.sh"] = None
    assert [need.words for need in (await rollout.check()).needs] == ["file https://tools.example.org/install.sh"]
    assert not (await OneRollout(failure).check()).needs


@pytest.mark.parametrize("calls", [0, 3])
async def test_a_rollout_that_ran_out_of_time_lacks_a_file_only_if_its_agent_never_began(calls: int) -> None:
    rollout = OneRollout(failed(FailureKind.LIMIT, "the rollout did not finish in 120 s"), calls=calls)
    rollout.interceptor.files_lacking["GET", "https://models.example.org/api.json"] = None
    check = await rollout.check()
    assert bool(check.needs) == (calls == 0)
    assert "did not finish in 120 s" in check.summary


async def test_a_rollout_that_goes_on_when_a_check_has_made_all_its_calls_is_no_failure() -> None:
    interceptor = Interceptor(Scripted(), caps=Caps(calls=3))
    failure = failed(FailureKind.LIMIT, "this rollout has used its 3 model calls")
    check = await OneRollout(failure, calls=3, interceptor=interceptor).check()
    assert (check.passed, check.summary) == (True, "not over after 3 model calls, the most that a check makes")
    assert (await OneRollout(failed(FailureKind.LIMIT, "too slow"), calls=2, interceptor=interceptor).check()).failed


async def test_a_rollout_that_another_release_may_do_better_lacks_no_file() -> None:
    failure = RolloutFailure(
        kind=FailureKind.ENVIRONMENT, type="TypeError", message="f() missing 1 required positional argument: 'a'"
    )
    rollout = OneRollout(failure)
    rollout.interceptor.files_lacking["GET", "https://tools.example.org/prices.json"] = None
    assert not (await rollout.check()).needs


async def test_a_program_that_the_library_started_in_vain_lacks_its_file() -> None:
    trace = 'File "/opt/venv/lib/python3.11/site-packages/verifiers/runtime.py", line 1, in run\n'
    failure = RolloutFailure(
        kind=FailureKind.ENVIRONMENT, type="RuntimeError", message="curl: (52) Empty reply from server", traceback=trace
    )
    rollout = OneRollout(failure)
    rollout.interceptor.files_lacking["GET", "https://tools.example.org/install.sh"] = None
    assert [need.words for need in (await rollout.check()).needs] == ["file https://tools.example.org/install.sh"]


class SlowImages:
    """Has an image once somebody waits for it outside a rollout."""

    def __init__(self) -> None:
        self.waiting = 0
        self.two_wait = asyncio.Event()

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        self.waiting += 1
        if self.waiting == 2:
            self.two_wait.set()
        await self.two_wait.wait()
        yield Image(name, "sha256:0", Path("/"))


@dataclass
class OneSandbox(OneRollout):
    """Its rollout fails when it waits for its sandbox in vain, and passes when the image is here."""

    images: SlowImages = field(default_factory=SlowImages)
    groups: list[str] = field(default_factory=list)

    async def run(self, group: Group) -> AsyncIterator[RolloutDone]:
        assert self.broker is not None
        self.groups += [f"{group.id} begins"]
        try:
            async for done in self._rollouts(group):
                yield done
        finally:
            self.groups += [f"{group.id} ends"]

    async def _rollouts(self, group: Group) -> AsyncIterator[RolloutDone]:
        assert self.broker is not None
        self.failure = None
        if not self.images.two_wait.is_set():
            async with self.broker.session() as session:
                await session.create(Wish(image="big"), rollout=group.policy.keys[0])
                while not self.images.waiting:
                    await asyncio.sleep(0.01)
                self.failure = failed(FailureKind.LIMIT, "the rollout did not finish in 120 s")
                async for done in super().run(group):
                    yield done
        async for done in super().run(group):
            yield done


async def test_a_rollout_whose_time_was_over_before_its_image_was_here_is_run_again_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_use, "LONG_WAIT_S", 0.0)
    rollout = OneSandbox()
    unused: Any = SimpleNamespace(facts=SimpleNamespace(limits_cpu=True))
    tickets = Tickets(tmp_path, Room(1), Party("ada", "1"))
    rollout.broker = Broker(Host(unused, rollout.images, tickets, BrokerLimits()))
    assert (await rollout.check()).passed
    assert rollout.images.waiting == 2
    assert rollout.groups == ["build begins", "build ends", "build-again begins", "build-again ends"]


def test_a_rollout_without_end_is_reported_as_far_as_it_fits() -> None:
    long = {"text": "x" * (MOST_BYTES // 3)}
    turns = [{"index": n, "protocol": "chat", "model": "m", "request": long, "response": {}} for n in range(9)]
    fields = {"example": 0, "rollout": 0, "example_hash": "", "outcome": Outcome.OK, "library": {"all": turns}}
    found = shown(RolloutRecord.model_validate({**fields, "turns": turns}))
    assert found is not None
    assert (len(found["turns"]), found["library"]) == (2, {})
    assert shown(RolloutRecord.model_validate({**fields, "prompt": "x" * MOST_BYTES})) is None
