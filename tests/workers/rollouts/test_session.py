"""A runner in a box, driven over its channel: what it reports, how it ends, what a hostile one can send."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.runner import Group, Load, Policy, RolloutDone

from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.workers.rollouts.conftest import quick_endpoint
from workers.rollouts.errors import RunnerFatal, RunnerGone
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.session import Runner, open_runner
from workers.sandbox import Bind, BoxSpec, backend

FAKE_RUNNER = Path(__file__).parents[2] / "fakes" / "runner"
PREFIX = Path(sys.base_prefix)
PYTHON = PREFIX / "bin" / "python3"
INTERPRETER = () if PREFIX.is_relative_to("/usr") else (Bind(PREFIX, str(PREFIX)),)
pytestmark = pytest.mark.sandbox
OpenRunner = Callable[..., AbstractAsyncContextManager[tuple[Runner, Interceptor, list[str]]]]


@pytest.fixture
def runner_in_box(tmp_path: Path, stub: PolicyEndpoint) -> OpenRunner:
    """A loaded fake runner with an interceptor; the list is the log."""

    @asynccontextmanager
    async def open_(load: bool = True, **env_args: Any) -> AsyncIterator[tuple[Runner, Interceptor, list[str]]]:
        sockets = tmp_path / "s"
        sockets.mkdir()
        lines: list[str] = []
        spec = BoxSpec(
            binds=(Bind(FAKE_RUNNER, "/opt/envhub/envhub_runner"), *INTERPRETER), sockets=sockets, network="gateway"
        )
        sandbox = backend("bwrap", tmp_path / "boxes")
        async with quick_endpoint(stub.base_url, retries=0) as endpoint:
            interceptor = Interceptor(endpoint)
            async with (
                interceptor.serve(sockets / "gateway.sock"),
                sandbox.create(spec) as box,
                open_runner(box, sockets=sockets, python=PYTHON, log=lines.append) as runner,
            ):
                if load:
                    await runner.load(Load(env_id="fake", module="fake", env_args=env_args))
                yield runner, interceptor, lines

    return open_


def group(runner: Runner, interceptor: Interceptor, *, example: int = 0, n: int = 1, **fields: Any) -> Group:
    """A group whose recorders are open."""
    keys = tuple(interceptor.open(f"g{example}.{index}").key for index in range(n))
    policy = Policy(base_url=runner.gateway_url + "/r/{rollout}/v1", keys=keys, model="m")
    return Group(id=f"g{example}", example=example, n=n, policy=policy, **fields)


async def run(runner: Runner, asked: Group) -> list[RolloutDone]:
    return [done async for done in runner.run(asked)]


async def test_a_group_comes_back_rollout_by_rollout(runner_in_box: OpenRunner) -> None:
    async with runner_in_box() as (runner, interceptor, log):
        assert (await runner.describe()).splits["eval"].size == 4
        done = await run(runner, group(runner, interceptor, n=3))
    assert [item.record.rollout for item in done] == [0, 1, 2]
    assert all(item.response_ids for item in done)
    assert any(line.startswith("loading fake") for line in log)
    assert "shutting down" in log


async def test_a_rollout_too_large_for_a_frame_comes_by_file(runner_in_box: OpenRunner) -> None:
    async with runner_in_box(spill=True) as (runner, interceptor, _):
        (done,) = await run(runner, group(runner, interceptor))
    assert done.record.reward == 1.0


async def test_what_the_runner_makes_up_is_dropped(runner_in_box: OpenRunner) -> None:
    async with runner_in_box(lie=True) as (runner, interceptor, _):
        assert len(await run(runner, group(runner, interceptor))) == 1
        assert runner.alive


async def test_a_fatal_environment_says_why(runner_in_box: OpenRunner) -> None:
    with pytest.raises(RunnerFatal) as caught:
        async with runner_in_box(load=True) as (runner, _, _):
            await runner.load(Load(env_id="fake", module="fake", env_args={"load": "fatal"}))
    assert caught.value.failure.code == "no_load_environment"


@pytest.mark.parametrize(("mode", "reason"), [("exit", "status 3"), ("nonsense", "a frame of")])
async def test_a_runner_that_ends_or_babbles_is_gone(runner_in_box: OpenRunner, mode: str, reason: str) -> None:
    async with runner_in_box(load=False) as (runner, _, _):
        with pytest.raises(RunnerGone, match=reason):
            await runner.load(Load(env_id="fake", module="fake", env_args={"load": mode}))
        assert not runner.alive


async def test_all_groups_of_a_dead_runner_end_at_once(runner_in_box: OpenRunner) -> None:
    async with runner_in_box(crash_on=1, slow_s=30) as (runner, interceptor, _):
        slow = asyncio.create_task(run(runner, group(runner, interceptor, example=0)))
        await asyncio.sleep(0.1)
        with pytest.raises(RunnerGone, match="status 9"):
            await run(runner, group(runner, interceptor, example=1))
        with pytest.raises(RunnerGone):
            await slow


async def test_a_group_that_never_returns_ends_the_runner(
    runner_in_box: OpenRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.rollouts.session.GROUP_GRACE_S", 0.3)
    async with runner_in_box(hang_on=0) as (runner, interceptor, _):
        with pytest.raises(RunnerGone, match="said nothing"):
            await run(runner, group(runner, interceptor, deadline_s=0.2))
        assert not runner.alive


async def test_a_group_has_as_long_again_to_be_scored(
    runner_in_box: OpenRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.rollouts.session.GROUP_GRACE_S", 1.0)
    async with runner_in_box(slow_s=3) as (runner, interceptor, _):
        assert len(await run(runner, group(runner, interceptor, n=2, deadline_s=1.5))) == 2


async def test_a_runner_that_only_talks_does_not_hold_its_group_open(
    runner_in_box: OpenRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.rollouts.session.GROUP_GRACE_S", 0.3)
    async with runner_in_box(hang_on=0, chatter=True) as (runner, interceptor, _):
        with pytest.raises(RunnerGone, match="said nothing"):
            async with asyncio.timeout(60):
                await run(runner, group(runner, interceptor, deadline_s=0.2))


async def test_a_runner_that_answers_what_nobody_asked_is_gone(runner_in_box: OpenRunner) -> None:
    async with runner_in_box(unasked=True) as (runner, interceptor, _):
        with pytest.raises(RunnerGone, match="nobody asked"):
            await run(runner, group(runner, interceptor))


async def test_a_group_past_its_deadlines_lives_while_its_runner_still_ends_rollouts(
    runner_in_box: OpenRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.rollouts.session.GROUP_GRACE_S", 2.0)
    async with runner_in_box(slow_s=0.7) as (runner, interceptor, _):
        assert len(await run(runner, group(runner, interceptor, n=5, deadline_s=0.2))) == 5


async def test_a_cancelled_session_ends_within_a_second(runner_in_box: OpenRunner) -> None:
    async def body() -> None:
        async with runner_in_box(hang_on=0) as (runner, interceptor, _):
            await run(runner, group(runner, interceptor))

    task = asyncio.create_task(body())
    await asyncio.sleep(1.5)
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() - began < 1.0


async def test_a_runner_that_cannot_start_shows_what_it_printed(tmp_path: Path) -> None:
    sockets = tmp_path / "s"
    sockets.mkdir()
    async with backend("bwrap", tmp_path / "boxes").create(BoxSpec(binds=INTERPRETER, sockets=sockets)) as box:
        with pytest.raises(RunnerGone, match="No module named envhub_runner"):
            async with open_runner(box, sockets=sockets, python=PYTHON, log=lambda line: None):
                pass
