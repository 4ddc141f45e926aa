"""A box or a runner that somebody kills from outside is infrastructure: tried again, never the environment's fault."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runner import Group, Load, Policy
from envhub.protocol.runs import FailureKind

from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.workers.rollouts.conftest import quick_endpoint
from workers.rollouts.errors import RunnerGone
from workers.rollouts.failures import typed_failures
from workers.rollouts.groups import POLICY_URL, GroupRunner
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.pool import RunnerPool
from workers.rollouts.session import Runner, open_runner
from workers.runs.errors import RunFailed
from workers.sandbox import Bind, BoxSpec, backend
from workers.sandbox.watch import children_of

FAKE_RUNNER = Path(__file__).parents[2] / "fakes" / "runner"
PREFIX = Path(sys.base_prefix)
INTERPRETER = () if PREFIX.is_relative_to("/usr") else (Bind(PREFIX, str(PREFIX)),)
MOMENTS = {"load": "loading fake", "describe": "describing", "rollouts": "rollout 0"}  # what the runner says then
Kill = Callable[[Path], None]
pytestmark = pytest.mark.sandbox


class World:
    """Boxes with fake runners under `root`. When the runner says `trigger`, `kill` falls, `times` times."""

    def __init__(self, root: Path, stub: PolicyEndpoint, kill: Kill, trigger: str, times: int) -> None:
        self.root, self.log, self.started = root, list[str](), 0
        self._stub, self._kill, self._trigger, self._left = stub, kill, trigger, times

    def say(self, line: str) -> None:
        self.log.append(line)
        if self._trigger and line.startswith(self._trigger):
            self.strike()

    def strike(self) -> None:
        if self._left:
            self._left -= 1
            self._kill(self.root)

    @asynccontextmanager
    async def open(self, number: int) -> AsyncIterator[Runner]:
        self.started += 1
        sockets = self.root / f"s{self.started}"
        sockets.mkdir()
        binds = (Bind(FAKE_RUNNER, "/opt/envhub/envhub_runner"), *INTERPRETER)
        spec = BoxSpec(binds=binds, sockets=sockets, network="gateway")
        sandbox = backend("bwrap", self.root / "boxes")
        async with (
            self.interceptor.serve(sockets / "gateway.sock"),
            sandbox.create(spec) as box,
            open_runner(box, sockets=sockets, python=PREFIX / "bin" / "python3", log=self.say) as runner,
        ):
            if not self._trigger:
                self.strike()
            yield runner

    async def evaluate(self, **env_args: Any) -> list[RolloutRecord]:
        """As an evaluation does: load, describe, one group."""
        async with quick_endpoint(self._stub.base_url, retries=0) as endpoint:
            self.interceptor = Interceptor(endpoint)
            with typed_failures(cast("Any", None)):
                load = Load(env_id="fake", module="fake", env_args=env_args)
                async with RunnerPool(self.open, load, log=self.say) as pool:
                    await pool.describe()
                    group = Group(id="g0", example=0, policy=Policy(base_url=POLICY_URL, model="m"))
                    return await GroupRunner(pool, self.interceptor, max_retries=2).run(lambda: group)


def boxes(root: Path) -> list[int]:
    """The outer bwrap of each living box."""
    return [json.loads(path.read_text())["pid"] for path in (root / "boxes" / "boxes").glob("*/box.json")]


def kill_box(root: Path) -> None:
    for pid in boxes(root):
        os.kill(pid, signal.SIGKILL)


def kill_runner(root: Path, number: int = signal.SIGKILL) -> None:
    for pid in (child for box in boxes(root) for child in children_of(box)):
        with suppress(OSError):
            if b"envhub_runner" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, number)


def end_runner(root: Path) -> None:
    kill_runner(root, signal.SIGTERM)


@pytest.fixture
def world(tmp_path: Path, stub: PolicyEndpoint, monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    monkeypatch.setattr("workers.rollouts.pool.AGAIN_S", 0.01)
    monkeypatch.setattr("workers.rollouts.groups.FIRST_PAUSE_S", 0.01)

    def make(kill: Kill = kill_box, moment: str = "", times: int = 1) -> World:
        return World(tmp_path, stub, kill, MOMENTS.get(moment, moment), times)

    return make


@pytest.mark.parametrize(
    ("kill", "moment"),
    [*product((kill_box, kill_runner), ("", "load", "describe", "rollouts")), (end_runner, "load")],
)
async def test_one_that_is_killed_is_started_again(world: Callable[..., World], kill: Kill, moment: str) -> None:
    made = world(kill, moment)
    (record,) = await made.evaluate(load_s=0.2, describe_s=0.2, slow_s=0.2)
    assert (record.reward, made.started) == (1.0, 2)


@pytest.mark.parametrize(("moment", "started"), [("", 3), ("load", 3), ("describe", 3)])
async def test_one_that_is_always_killed_is_the_hosts_fault(
    world: Callable[..., World], moment: str, started: int
) -> None:
    made = world(kill_box, moment, times=100)
    with pytest.raises(RunFailed) as caught:
        await made.evaluate(load_s=0.2, describe_s=0.2)
    assert (caught.value.failure.kind, made.started) == (FailureKind.INFRASTRUCTURE, started)


async def test_rollouts_whose_box_is_always_killed_are_not_scored(world: Callable[..., World]) -> None:
    (record,) = await world(kill_box, "rollouts", times=100).evaluate(slow_s=0.2)
    assert record.failure is not None
    assert (record.failure.kind, record.reward) == (FailureKind.INFRASTRUCTURE, None)


@pytest.mark.parametrize("mode", ["exit", "crash"])
async def test_an_environment_that_ends_its_own_process_is_to_blame(world: Callable[..., World], mode: str) -> None:
    made = world(moment="never")
    with pytest.raises(RunFailed) as caught:
        await made.evaluate(load=mode)
    assert (caught.value.failure.kind, made.started) == (FailureKind.ENVIRONMENT, 1)


async def test_the_end_of_a_boxs_lifetime_is_no_kill(tmp_path: Path) -> None:
    sockets = tmp_path / "s"
    sockets.mkdir()
    binds = (Bind(FAKE_RUNNER, "/opt/envhub/envhub_runner"), *INTERPRETER)
    spec = BoxSpec(binds=binds, sockets=sockets)
    async with (
        backend("bwrap", tmp_path / "boxes").create(spec) as box,
        open_runner(box, sockets=sockets, python=PREFIX / "bin" / "python3", log=print) as runner,
    ):
        asyncio.get_running_loop().call_later(0.1, box.expire)  # type: ignore[attr-defined]
        with pytest.raises(RunnerGone, match="lifetime is over") as caught:
            await runner.load(Load(env_id="fake", module="fake", env_args={"load_s": 30}))
    assert not caught.value.outside
