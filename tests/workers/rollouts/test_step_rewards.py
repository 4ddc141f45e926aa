"""Rewards of single turns, from a real library in a box through the interceptor up to the advantages of samples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runner import Group, Load, Policy

from tests.e2e.package_runs import Script
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import Answer as Said
from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.workers.rollouts.conftest import quick_endpoint
from workers.rollouts.boxes import PYTHON, RUNNER_PATH, RUNNER_SOURCE, VENV_PATH
from workers.rollouts.groups import POLICY_URL, GroupRunner
from workers.rollouts.interceptor.answers import Answer, Route
from workers.rollouts.interceptor.endpoint import Endpoint
from workers.rollouts.interceptor.recorder import Caps
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.pool import RunnerPool
from workers.rollouts.session import Runner, open_runner
from workers.sandbox import Bind, BoxSpec, backend
from workers.training.credit.group import CreditOptions, credit_group
from workers.training.samples.build import SamplePolicy, build_samples
from workers.training.samples.record import to_rollout
from workers.training.samples.sample import Sample

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
PACKAGES = Path(__file__).parent / "packages"
RETURNS = (0.1875, 0.375, 0.75, 0.5, 1.0)  # of (0, 0, 0.5, 0, 1) with gamma 0.5, by hand
EXAMPLES = 4  # MODES of the packages


class Versioned:
    """The stub as the policy of a training run: its answers name the weights."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.model, self._endpoint = endpoint.model, endpoint

    async def send(self, route: Route, body: JsonObject) -> Answer:
        asked = {**body, "return_token_ids": True, "logprobs": True}
        return replace(await self._endpoint.send(route, asked), policy_version=0)


def says_yes_or_no() -> Any:
    """Every second conversation says no, throughout; where there is a tool it is called four times."""
    began = count()

    def answer(body: dict[str, Any]) -> Said:
        before = [message for message in body["messages"] if message["role"] == "assistant"]
        word = str(before[0]["content"]) if before else ("yes", "no")[next(began) % 2]
        tools = body.get("tools") or ()
        calls = tuple((tool["function"]["name"], "{}") for tool in tools if len(before) < 4)
        return Said(word, tool_calls=calls)

    return answer


async def rollouts_of(
    release: str,
    module: str,
    arguments: dict[str, Any],
    folder: Path,
    *,
    harness: dict[str, Any] | None = None,
    caps: Caps = Caps(),  # noqa: B008  frozen
    answer: Script | None = None,
    examples: int = EXAMPLES,
) -> list[list[RolloutRecord]]:
    """Two rollouts of each example of the package."""
    python = python_of(release)
    venv, prefix = python.parents[1], python.resolve().parents[1]
    log: list[str] = []

    @asynccontextmanager
    async def open_box(number: int) -> AsyncIterator[Runner]:
        sockets = folder / f"s{number}"
        sockets.mkdir()
        binds = [Bind(venv, VENV_PATH), Bind(RUNNER_SOURCE, RUNNER_PATH), Bind(PACKAGES, "/opt/envhub/packages")]
        if not prefix.is_relative_to("/usr"):
            binds.append(Bind(prefix, str(prefix)))
        spec = BoxSpec(binds=tuple(binds), sockets=sockets, network="gateway")
        paths = {"PYTHONPATH": f"{Path(RUNNER_PATH).parent}:/opt/envhub/packages"}
        async with (
            interceptor.serve(sockets / "gateway.sock"),
            backend("bwrap", folder / "boxes").create(spec) as box,
            open_runner(box, sockets=sockets, python=PYTHON, log=log.append, env=paths) as runner,
        ):
            yield runner

    load = Load(env_id=module.replace("_", "-"), module=module, env_args=arguments, harness=harness)
    async with PolicyEndpoint(answer=answer or says_yes_or_no()) as stub, quick_endpoint(stub.base_url) as endpoint:
        interceptor = Interceptor(Versioned(endpoint), caps=caps)
        async with RunnerPool(open_box, load, log=log.append) as pool:
            policy, runner = Policy(base_url=POLICY_URL, model="m"), GroupRunner(pool, interceptor, 0)
            groups = [Group(id=f"g{one}", example=one, n=2, policy=policy, deadline_s=60) for one in range(examples)]
            return [await runner.run(lambda group=group: group) for group in groups]


def samples_of(records: list[RolloutRecord]) -> list[Sample]:
    """As a training run makes them, with gamma 0.5."""
    rollouts = [to_rollout(record, group=0, environment="e") for record in records]
    built = build_samples(rollouts, credit_group(rollouts, CreditOptions(gamma=0.5)), SamplePolicy())
    return [sample for samples in built.samples for sample in samples]


def by_turn(samples: list[Sample], rollout: int) -> list[float]:
    """The advantage of each turn of a rollout; all of a turn's tokens must have the same."""
    found: dict[int, set[float]] = {}
    for sample in samples:
        if sample.rollout.index == rollout:
            for turn, advantage in zip(sample.turns[sample.train], sample.advantages[sample.train], strict=True):
                found.setdefault(int(turn), set()).add(float(advantage))
    assert all(len(values) == 1 for values in found.values())
    return [found[turn].pop() for turn in sorted(found)]


@pytest.mark.parametrize(
    ("release", "module", "arguments"),
    [
        pytest.param("0.1.14", "legacy_steps", {}, marks=pytest.mark.matrix),
        ("0.1.14", "legacy_steps", {"together": True}),  # the library's group scoring fills in the outcome's reward
        ("0.4.0", "current_steps", {}),
    ],
)
async def test_step_rewards_become_the_advantages_of_their_turns(
    tmp_path: Path, release: str, module: str, arguments: dict[str, Any]
) -> None:
    steps, advantages, none, unusable = await rollouts_of(release, module, arguments, tmp_path)
    assert not any(record.failure for record in (*steps, *advantages, *none))
    earned = [[turn.reward or 0.0 for turn in record.turns] for record in steps]
    assert sorted(earned) == [[0.0] * 5, [0.0, 0.0, 0.5, 0.0, 1.0]]  # not the outcome's reward, which is 7 or 8
    samples = samples_of(steps)
    for number, rewards in enumerate(earned):
        sign = 1 if any(rewards) else -1  # the group's mean is half of the better one's return
        assert by_turn(samples, number) == pytest.approx([sign * value / 2 for value in RETURNS])

    samples = samples_of(advantages)
    assert [by_turn(samples, number) for number in (0, 1)] == [[0.0, 1.0, 2.0, 3.0, 4.0]] * 2  # as they are

    assert {(turn.reward, turn.advantage) for record in none for turn in record.turns} == {(None, None)}
    assert not any(sample.advantages.any() for sample in samples_of(none))  # the outcome counts: all have the same

    failures = [record.failure for record in unusable if record.failure is not None]
    assert [(failure.kind, failure.type) for failure in failures] == [("verifier", "BadReward")] * 2
