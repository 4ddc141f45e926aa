"""The schedule fills its permits in order, holds no more than that, and stops at the first error."""

from __future__ import annotations

import asyncio

import pytest

from workers.rollouts.schedule import Unit, run_all


async def test_no_more_rollouts_are_in_flight_than_allowed() -> None:
    now = most = 0

    async def run(unit: Unit) -> None:
        nonlocal now, most
        now += unit.n
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= unit.n

    await run_all((Unit(i, 0, 1 + i % 3) for i in range(50)), 6, run)
    assert most <= 6


async def test_a_group_larger_than_the_limit_runs_alone() -> None:
    async with asyncio.timeout(30):
        seen: list[int] = []

        async def run(unit: Unit) -> None:
            seen.append(unit.example)

        await run_all([Unit(0, 0, 16), Unit(1, 0, 1)], 4, run)
    assert seen == [0, 1]


async def test_units_are_taken_from_the_plan_only_when_there_is_room() -> None:
    taken = 0

    def plan() -> object:
        nonlocal taken
        for i in range(1000):
            taken += 1
            yield Unit(i, 0, 1)

    task = asyncio.create_task(run_all(plan(), 4, lambda unit: asyncio.sleep(3600)))  # type: ignore[arg-type]
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert taken == 5


async def test_the_first_error_is_raised_as_it_is() -> None:
    async def run(unit: Unit) -> None:
        if unit.example == 3:
            raise KeyError("three")
        await asyncio.sleep(3600)

    with pytest.raises(KeyError, match="three"):
        await run_all((Unit(i, 0, 1) for i in range(10)), 8, run)
