"""Environments that were written for verifiers before 0.1.8 run unchanged under these releases."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runner import Fatal, Hello

from tests.envhub.runner.runner_process import RunnerProcess, group
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import Answer, Body, Fault, PolicyEndpoint

pytestmark = pytest.mark.verifiers
OTHERS = ("0.1.3", "0.1.4", "0.1.6", "0.1.7")  # the rollouts of 0.1.7 are given their state, earlier ones make it
RELEASES = ["0.1.5", *(pytest.param(release, marks=pytest.mark.matrix) for release in OTHERS)]
each_release = pytest.mark.parametrize("release", RELEASES)


def number(body: Body) -> str:
    """What it is told to say."""
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return f"it is {said[0].split()[-1]}"


async def run(release: str, mode: str, answer: Any = number, n: int = 1, example: int = 1) -> list[RolloutRecord]:
    async with PolicyEndpoint(answer=answer) as endpoint, RunnerProcess(python_of(release)) as runner:
        hello = await runner.load("v0_pairs", env_args={"mode": mode})
        assert isinstance(hello, Hello), hello
        assert (await runner.describe()).splits["eval"].size
        work = group(endpoint.base_url, example, n, deadline_s=30, state_columns=("asked",), seed=7)
        records = await runner.rollouts(work)
    assert [record.failure for record in records] == [None] * n, runner.log.decode()
    return records


@each_release
async def test_turns_rewards_and_metrics_are_those_of_later_releases(release: str) -> None:
    (record,) = await run(release, "guess")
    assert (record.reward, record.metrics, record.weights) == (
        1.0,
        {"exact": 1.0, "turns": 2.0},
        {"exact": 1.0, "turns": 0.0},
    )
    assert [message["role"] for message in record.prompt] == ["system", "user"]
    assert [message["content"] for message in record.completion] == ["it is 1", "again", "it is 1"]
    assert record.extras == {"asked": 1}
    assert record.outcome.value == "ok"


@each_release
async def test_tools_are_called(release: str) -> None:
    def script(body: Body) -> Answer:
        if body["messages"][-1]["role"] == "tool":
            return Answer(f"{body['messages'][-1]['content']} and 1")
        assert body["tools"][0]["function"]["name"] == "double"
        return Answer("", (("double", '{"x": 21}'),))

    (record,) = await run(release, "tools", script)
    assert record.reward == 1.0
    call, result, last = record.completion
    assert call["tool_calls"][0]["function"] == {"name": "double", "arguments": '{"x": 21}'}
    assert (result["content"], last["content"]) == ("42", "42 and 1")


@pytest.mark.matrix
@each_release
async def test_a_rubric_that_compares_rollouts_gets_the_whole_group(release: str) -> None:
    records = await run(release, "compared", n=4)
    assert [record.reward for record in records] == [0.25] * 4
    assert [record.metrics["exact"] for record in records] == [1.0] * 4


@pytest.mark.matrix
@each_release
async def test_members_of_a_group_of_environments_run_their_own_rows(release: str) -> None:
    (record,) = await run(release, "members", example=4)
    assert (record.reward, record.metrics) == (1.0, {"exact": 1.0})


@pytest.mark.matrix
@each_release
async def test_completions_are_text(release: str) -> None:
    (record,) = await run(release, "completion", lambda body: " three", example=0)
    assert (record.reward, record.prompt, record.completion) == (1.0, "one two", " three")


@each_release
async def test_an_answer_that_was_cut_off_is_truncated(release: str) -> None:
    (record,) = await run(release, "guess", lambda body: Answer("stop 1", finish_reason="length"))
    assert (record.outcome.value, record.reward) == ("truncated", 1.0)


@pytest.mark.matrix
@each_release
@pytest.mark.parametrize(("fault", "kind"), [(Fault.SERVER_ERROR, "infrastructure"), (Fault.NO_KEY, "policy")])
async def test_a_model_that_fails_is_told_from_the_environment(release: str, fault: Fault, kind: str) -> None:
    async with PolicyEndpoint(always=fault) as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_pairs"), Hello)
        (record,) = await runner.rollouts(group(endpoint.base_url, deadline_s=30))
    assert record.failure is not None
    assert (record.reward, record.failure.kind) == (None, kind)


@pytest.mark.parametrize("release", ["0.1.14", pytest.param("0.1.9", marks=pytest.mark.matrix)])
async def test_later_releases_say_that_they_are_too_new(release: str) -> None:
    async with RunnerProcess(python_of(release)) as runner:
        event = await runner.load("v0_pairs")
    assert isinstance(event, Fatal)
    assert event.failure.code == "outdated_environment"
    assert "verifiers<0.1.8" in event.failure.hint
