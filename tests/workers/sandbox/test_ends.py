"""Why a box has ended, when one of its commands ran out of memory before, or the host did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from workers.sandbox import BoxExpired, BoxGone, BoxKilled, BoxOutOfMemory, BoxSpec, Sandbox
from workers.sandbox.box import NO_STATS, AgentBox

pytestmark = pytest.mark.sandbox


class Kills:
    """Stands for the kernel's count of out-of-memory kills."""

    count = 0


@pytest.fixture
def kills() -> Kills:
    return Kills()


@pytest.fixture
async def box(sandbox: Sandbox, kills: Kills) -> AsyncIterator[AgentBox]:
    async with sandbox.create(BoxSpec()) as made:
        assert isinstance(made, AgentBox)
        made._stats = lambda: replace(NO_STATS, oom_kills=kills.count)
        job = await made.start_job(["sleep", "9"])
        kills.count = 1
        await job.kill()
        assert (await job.wait()).oom_killed
        yield made


async def test_its_lifetime_is_not_taken_for_its_memory(box: AgentBox) -> None:
    box.expire()
    assert isinstance(await box.ended(), BoxExpired)


async def test_a_kill_is_not_taken_for_its_memory(box: AgentBox) -> None:
    await box.kill()
    assert not isinstance(await box.ended(), BoxOutOfMemory)


async def test_another_kill_for_memory_ends_it(box: AgentBox, kills: Kills) -> None:
    kills.count = 2
    await box.kill()
    assert isinstance(await box.ended(), BoxOutOfMemory)


async def test_a_kill_because_the_host_ran_out_of_memory_is_the_hosts(sandbox: Sandbox) -> None:
    async with sandbox.create(BoxSpec()) as made:
        assert isinstance(made, AgentBox)
        job = await made.start_job(["sh", "-c", "kill -9 -1"])
        with pytest.raises(BoxGone):
            await job.wait()
        assert not isinstance(await made.ended(), BoxKilled)
        made._stats = lambda: replace(NO_STATS, host_kills=1)
        ended = await made.ended()
        assert (type(ended), ended.message) == (BoxKilled, "the host ran out of memory")


async def test_a_command_that_the_lifetime_ended_did_not_run_out_of_memory(box: AgentBox, kills: Kills) -> None:
    job = await box.start_job(["sleep", "9"])
    kills.count = 2  # of another command
    box.expire()
    with pytest.raises(BoxExpired):
        await job.wait()
