"""Documented forms of 0.1.15.dev11 that no sample uses: tables of signals, `init_group`, a `skills` folder."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.protocol.runner import Fatal, Hello

from tests.envhub.runner.runner_process import RunnerProcess, group
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = pytest.mark.verifiers
RELEASE = "0.1.15.dev11"
MODULE = "harness_forms"


async def test_tables_add_and_tune_signals_and_a_group_begins_as_the_taskset_says() -> None:
    tables: dict[str, Any] = {
        "metrics": [{"fn": f"{MODULE}:spoken", "priority": 1}],
        "rewards": [{"fn": f"{MODULE}:named", "weight": 0.5}],
        "scoring": {"exact": {"weight": 2.0}},
    }
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(RELEASE)) as runner:
        loaded = await runner.load(MODULE, taskset=tables)
        assert isinstance(loaded, Hello), loaded
        records = sorted(await runner.rollouts(group(endpoint.base_url, n=2)), key=lambda record: record.rollout)
    assert [(record.reward, record.failure) for record in records] == [(2.5, None), (2.5, None)]
    metrics = [record.metrics for record in records]
    assert [each["spoken"] for each in metrics] == [1.0, 1.0]
    assert [(each["place"], each["group_size"]) for each in metrics] == [(0.0, 2.0), (1.0, 2.0)]
    assert [each["skills"] for each in metrics] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("taskset", "code", "named"),
    [
        ({"metrics": [{"fn": f"{MODULE}:absent"}]}, "load_failed", "'absent'"),
        ({"metrics": [{"fn": f"{MODULE}:spoken", "wait": 1}]}, "bad_arguments", "taskset.metrics.0"),
    ],
)
async def test_a_wrong_table_is_refused_by_name(taskset: dict[str, Any], code: str, named: str) -> None:
    async with RunnerProcess(python_of(RELEASE)) as runner:
        loaded = await runner.load(MODULE, taskset=taskset)
    assert isinstance(loaded, Fatal)
    assert loaded.failure.code == code
    assert named in loaded.failure.message
