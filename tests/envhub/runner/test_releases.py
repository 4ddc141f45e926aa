"""What can go wrong in an environment is told apart, the same under every release that is supported."""

from __future__ import annotations

from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from envhub.protocol.runner import Fatal, Group, Hello, Policy, Shutdown

from tests.e2e.package_runs import PACKAGES
from tests.envhub.runner.runner_process import RunnerProcess, group
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import Answer, Fault, PolicyEndpoint

pytestmark = pytest.mark.verifiers
JUDGED = PACKAGES / "e2e-judge"
SAMPLE = ("0.1.14",)  # `make test-matrix` runs the others too; tests/e2e runs packages of each generation
LEGACY = [
    release if release in SAMPLE else pytest.param(release, marks=pytest.mark.matrix)
    for release in ("0.1.8", "0.1.9", "0.1.10", "0.1.12", "0.1.14", "0.1.15.dev11", "0.3.1")
]
PAIRS = [pytest.param(release, marks=pytest.mark.matrix) for release in ("0.1.5", "0.1.6", "0.1.7")]
CURRENT = ["0.4.0", pytest.param("0.3.1", marks=pytest.mark.matrix)]
KINDS = {
    "bad-reward": "verifier",
    "no-number": "verifier",
    "blocking-reward": "verifier",
    "hanging-reward": "verifier",
    "exit-in-reward": "verifier",
    "bad-group": "verifier",
    "env-error": "environment",
    "env-exit": "environment",
    "blocking-env": "limit",
    "hang": "limit",
}


@pytest.mark.parametrize("release", LEGACY)
@pytest.mark.parametrize("mode", KINDS)
async def test_a_failure_of_a_legacy_environment_has_its_kind_and_no_reward(release: str, mode: str) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_words", env_args={"mode": mode}), Hello)
        records = await runner.rollouts(group(endpoint.base_url, n=2, deadline_s=5))
    assert [(record.reward, record.failure and record.failure.kind) for record in records] == [(None, KINDS[mode])] * 2


@pytest.mark.parametrize("release", PAIRS)
@pytest.mark.parametrize("mode", KINDS.keys() - {"bad-group"})
async def test_a_failure_before_0_1_8_has_its_kind_and_no_reward(release: str, mode: str) -> None:
    await test_a_failure_of_a_legacy_environment_has_its_kind_and_no_reward(release, mode)


async def test_a_row_reaches_the_environment_as_the_librarys_own_server_gets_it() -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of("0.1.14")) as runner:
        assert isinstance(await runner.load("v0_facts"), Hello)
        (record,) = await runner.rollouts(group(endpoint.base_url, n=1, deadline_s=30))
    assert (record.failure, record.reward) == (None, 0.0)


@pytest.mark.parametrize("release", [*PAIRS, *LEGACY])
async def test_a_judge_that_refuses_within_the_librarys_rubric_is_the_judges_failure(release: str) -> None:
    async with PolicyEndpoint() as endpoint, PolicyEndpoint(always=Fault.CONTEXT_LENGTH) as judge:
        address = {"OPENAI_BASE_URL": judge.base_url, "OPENAI_API_KEY": "none"}
        async with RunnerProcess(python_of(release), (JUDGED,), **address) as runner:
            assert isinstance(await runner.load("e2e_judge"), Hello)
            (record,) = await runner.rollouts(group(endpoint.base_url, n=1, deadline_s=30))
    assert record.failure is not None
    assert (record.reward, record.failure.kind) == (None, "judge")
    assert "BadRequestError" in record.failure.traceback  # what the library's RuntimeError came of


@pytest.mark.parametrize("release", [*PAIRS, *LEGACY])
@pytest.mark.parametrize("mode", ["fork-in-reward", "fork-in-thread"])
async def test_a_forked_child_that_comes_back_ends_and_reports_nothing(release: str, mode: str) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_words", env_args={"mode": mode}), Hello)
        records = await runner.rollouts(group(endpoint.base_url, n=3, deadline_s=30, state_columns=("child",)))
    assert [(record.reward, record.extras) for record in records] == [(1.5, {"child": 1})] * 3
    assert b"was not ended by os._exit()" in runner.log


@pytest.mark.parametrize("release", [*PAIRS, *LEGACY])
@pytest.mark.parametrize(
    ("mode", "status"),
    [("exit-of-fork 0", 0), ("exit-of-fork 7", 7), ("exit-of-fork-in-thread 0", 0), ("fork-in-env", 7)],
)
async def test_a_forked_child_that_exits_has_the_status_that_it_chose(release: str, mode: str, status: int) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_words", env_args={"mode": mode}), Hello)
        records = await runner.rollouts(group(endpoint.base_url, n=3, deadline_s=30, state_columns=("child",)))
    assert [(record.outcome.value, record.extras) for record in records] == [("ok", {"child": status})] * 3
    assert b"was not ended" not in runner.log


@pytest.mark.parametrize("release", LEGACY)
async def test_one_broken_rollout_of_a_group_leaves_the_others_scored(release: str) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_words", env_args={"mode": "group-one-breaks"}), Hello)
        records = await runner.rollouts(group(endpoint.base_url, n=3, deadline_s=30))
    assert sorted(record.outcome.value for record in records) == ["failed", "ok", "ok"]


@pytest.mark.parametrize("release", [*PAIRS, *LEGACY])
async def test_rewards_of_one_name_are_metrics_of_their_own(release: str) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_words", env_args={"mode": "namesakes"}), Hello)
        (record,) = await runner.rollouts(group(endpoint.base_url, n=1, deadline_s=30))
    own = {name: record.metrics[name] for name, weight in record.weights.items() if weight}
    long = own.pop("length")
    assert own.pop("length_2") == long > 0  # asynchronous ones, too
    assert own == {"exact": 1.0, "<lambda>": 1.0, "<lambda>_2": 0.25, "exact_2": 1.0}
    assert record.reward == 3.0 + 2 * long


@pytest.mark.parametrize("release", [*PAIRS, *LEGACY])
async def test_a_reward_that_members_of_a_group_share_has_the_weight_of_the_member_that_ran(release: str) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("v0_words", env_args={"mode": "members", "n": 1}), Hello)
        both = [group(endpoint.base_url, example, deadline_s=30) for example in (0, 1)]
        records = await runner.rollouts(*both)
    assert [(record.reward, record.weights["exact"]) for record in records] == [(0.5, 0.5), (2.0, 2.0)]


async def test_programs_of_the_environment_can_be_interrupted() -> None:
    async with RunnerProcess(python_of(SAMPLE[0])) as runner:
        assert isinstance(await runner.load("v0_words"), Hello)
        status = Path(f"/proc/{runner.process.pid}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert not ignored & 1 << (SIGINT - 1)  # what is ignored, programs inherit


async def rollouts_seen(release: str, module: str, **load: Any) -> list[str]:
    """Run a group of two against a server that only notes the rollout in the URL; what it saw."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.match_info["rollout"])
        message = {"role": "assistant", "content": "hello"}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": choices, "usage": usage}
        return web.json_response(body)

    app = web.Application()
    app.router.add_post("/r/{rollout}/v1/chat/completions", answer)
    async with TestServer(app) as server, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load(module, **load), Hello)
        url = str(server.make_url("/r/")) + "{rollout}/v1"
        policy = Policy(base_url=url, keys=("a", "b"), group_key="g", model="stub")
        records = await runner.rollouts(Group(id="g", example=0, n=2, first_index=3, policy=policy))
    assert [record.outcome.value for record in records] == ["ok", "ok"]
    return sorted(seen)


@pytest.mark.parametrize("release", LEGACY)
@pytest.mark.parametrize("mode", ["plain", "group"])
async def test_every_rollout_of_a_legacy_environment_has_its_own_url(release: str, mode: str) -> None:
    assert await rollouts_seen(release, "v0_words", env_args={"mode": mode}) == ["a", "b"]


@pytest.mark.parametrize("release", PAIRS)
async def test_every_rollout_before_0_1_8_has_its_own_url(release: str) -> None:
    assert await rollouts_seen(release, "v0_words") == ["a", "b"]


@pytest.mark.parametrize("release", CURRENT)
async def test_every_rollout_of_a_current_taskset_has_its_own_url(release: str) -> None:
    assert await rollouts_seen(release, "current_words") == ["a", "b"]


@pytest.mark.parametrize("release", CURRENT)
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("bad-reward", "verifier"),
        ("blocking-reward", "verifier"),
        ("hanging-reward", "verifier"),
        ("env-error", "environment"),
        ("hang", "limit"),
    ],
)
async def test_a_failure_of_a_current_taskset_has_its_kind(release: str, mode: str, kind: str) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("current_words", taskset={"mode": mode}), Hello)
        records = await runner.rollouts(group(endpoint.base_url, n=2, deadline_s=5))
    assert [(record.reward, record.failure and record.failure.kind) for record in records] == [(None, kind)] * 2


@pytest.mark.parametrize("release", CURRENT)
async def test_a_tasksets_own_limit_for_scoring_gives_no_partial_reward(release: str) -> None:
    async with PolicyEndpoint() as endpoint, RunnerProcess(python_of(release)) as runner:
        load = {"taskset": {"mode": "hanging-reward"}, "harness": {"timeout": {"scoring": 0.2}}}
        assert isinstance(await runner.load("current_words", **load), Hello)
        (record,) = await runner.rollouts(group(endpoint.base_url, deadline_s=60))
    assert record.failure is not None
    assert (record.reward, record.failure.kind, record.failure.type) == (None, "verifier", "ScoringTimeout")


@pytest.mark.parametrize("release", CURRENT)
async def test_a_truncated_rollout_keeps_its_reward_and_says_so(release: str) -> None:
    cut = lambda body: Answer("half a", finish_reason="length")  # noqa: E731
    async with PolicyEndpoint(answer=cut) as endpoint, RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load("current_words"), Hello)
        (record,) = await runner.rollouts(group(endpoint.base_url))
    assert (record.outcome.value, record.reward) == ("truncated", 2.0)


@pytest.mark.parametrize("release", [*CURRENT, pytest.param("0.2.1", marks=pytest.mark.matrix)])
async def test_a_plain_harness_of_the_library_that_a_package_exports_starts_no_program(release: str) -> None:
    hello = PolicyEndpoint(answer=lambda body: "hello")
    async with hello as endpoint, RunnerProcess(python_of(release), PATH="/nowhere") as runner:
        assert isinstance(await runner.load("shipped_harness"), Hello)
        (record,) = await runner.rollouts(group(endpoint.base_url, deadline_s=60))
    assert (record.reward, record.failure) == (1.0, None)


async def test_a_load_environment_on_a_release_without_it_is_a_mismatch() -> None:
    async with RunnerProcess(python_of("0.4.0")) as runner:
        event = await runner.load("plain_loader")
    assert isinstance(event, Fatal)
    assert event.failure.code == "verifiers_generation_mismatch"


async def test_tables_that_a_config_class_refuses_are_named_by_path() -> None:
    async with RunnerProcess(python_of("0.4.0")) as runner:
        event = await runner.load("current_words", taskset={"num_tasks": "many"})
    assert isinstance(event, Fatal)
    assert (event.failure.code, event.failure.message.split(":")[0]) == ("bad_arguments", "taskset.num_tasks")


async def test_shutdown_runs_the_teardown_and_exits_cleanly() -> None:
    async with PolicyEndpoint(), RunnerProcess(python_of("0.1.14")) as runner:
        await runner.load("v0_words", env_args={"mode": "hang"})
        await runner.send(Shutdown())
        assert await runner.process.wait() == 0
        await runner._drain
    assert b"teardown ran" in runner.log


async def test_a_package_that_has_only_a_harness_is_told_that_it_lacks_tasks() -> None:
    async with RunnerProcess(python_of("0.4.0")) as runner:
        event = await runner.load("only_harness")
    assert isinstance(event, Fatal)
    assert "only_harness has a harness (IdleHarness), but no taskset and no load_environment" in event.failure.message
    assert "export a Taskset subclass" in event.failure.hint
