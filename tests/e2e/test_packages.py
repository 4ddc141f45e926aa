"""Packages of tests/e2e/packages by the real path: CLI push, build, hosted evaluation in a box, API.

All are pushed and evaluated at once, by one fixture; the tests look at what came out. By default those for which the
hub, the build or the box do something of their own; the others are driven by the runner then (tests/envhub/runner), and
come here with `make test-matrix`. Of several runs of a package the first is tried here, and whatever a build prepares.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.accounts.secrets import SecretRequest
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.packages import VersionState, VersionView
from envhub.protocol.runs import RunState

from tests.e2e.package_runs import BY_HUB, PACKAGES, RUNS, V0, PackageRun, says
from tests.e2e.stack import USER, Stack
from tests.fakes.policy_endpoint import Answer, Body, PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
DATA_SET = "openai/gsm8k"
GSM8K = PackageRun("e2e-gsm8k-shape", V0, says("<answer>13</answer>"), rewards=(1.2, 1.2))
GSM8K_BUILTIN = replace(GSM8K, env_args={"builtin": True})
GSM8K_WITHOUT_OWNER = replace(GSM8K, env_args={"data_set": "gsm8k"})
FIRST = {run.package: run for run in reversed(RUNS)}
TRIED = [run for run in RUNS if run.needs_build or run is FIRST[run.package]]
# The build loads it with the owner's name, which is also what the library's own loader asks for.
SAMPLE = [run for run in TRIED if run.package in BY_HUB]
OTHERS = [*(run for run in TRIED if run.package not in BY_HUB), GSM8K_WITHOUT_OWNER, GSM8K, GSM8K_BUILTIN]


def each(runs: list[PackageRun]) -> pytest.MarkDecorator:
    """A test for each run."""
    return pytest.mark.parametrize("run", runs, ids=lambda run: run.name)


@dataclass
class Started:
    """Versions by package, evaluation ids by the run's name."""

    stack: Stack
    versions: dict[str, VersionView] = field(default_factory=dict)
    evaluations: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def started(stack: Stack) -> Started:
    """The sample: everything pushed and built, every evaluation queued."""
    return start(stack, SAMPLE)


@pytest.fixture(scope="module")
def others(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Started:
    """The same of those that are not in the sample."""
    add_data_set(stack, tmp_path_factory.mktemp("gsm8k"))
    return start(stack, OTHERS)


def start(stack: Stack, runs: list[PackageRun]) -> Started:
    """Push and build, queue the evaluations."""
    started = Started(stack)
    models = {run.name: register_script(stack, run) for run in runs}
    names = list(dict.fromkeys(run.package for run in runs))
    with ThreadPoolExecutor(2) as pool:
        pushed = pool.map(stack.push, [PACKAGES / name for name in names])
        for name, version in zip(names, pushed, strict=True):
            started.versions[name] = stack.wait_ready(version)
            for run in runs:
                if run.package == name and started.versions[name].state is VersionState.READY:
                    started.evaluations[run.name] = stack.evaluate(configuration(run, models[run.name])).id
    return started


def add_data_set(stack: Stack, folder: Path) -> None:
    """Rows of the published data set's shape, given to the hub by the command for air-gapped sites."""
    rows = [{"question": f"What is 6 + {n}?", "answer": f"6 + {n} is {6 + n}.\n#### {6 + n}"} for n in range(7, 12)]
    for split in ("train", "test"):
        path = folder / "main" / f"{split}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = "".join(f"  - split: {split}\n    path: main/{split}.jsonl\n" for split in ("train", "test"))
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: main\n  data_files:\n{files}---\n")
    stack.cli("data", "add", DATA_SET, str(folder), HUB_TOKEN=stack.make_token("admin", "read,write,admin"))


def register_script(stack: Stack, run: PackageRun) -> str:
    """An endpoint that follows the run's script, and its name in the catalog."""

    def answer(body: Body, script: Callable[[dict[str, Any]], Answer | str] = run.script) -> Answer | str:
        return script(body)

    if run.env:
        with stack.client() as hub:
            for name, value in run.env.items():
                hub.secrets.put(USER, name, SecretRequest(value=value))
    return stack.register(PolicyEndpoint(answer=answer))


def configuration(run: PackageRun, model: str) -> EvaluationConfig:
    """The run as the API wants it."""
    return EvaluationConfig(
        environment=f"{USER}/{run.package}",
        model=model,
        num_examples=run.example + 1,
        rollouts_per_example=run.rollouts,
        env_args=run.env_args,
        taskset=run.taskset,
        harness=run.harness,
        max_retries=1,
        timeout_s=120,
        state_columns=("events", "opaque"),
        judges={"judge": model},
        secrets=tuple(run.env),
    )


@each(SAMPLE)
def test_package_is_built_and_evaluated(started: Started, run: PackageRun) -> None:
    check_built(started, run)
    check_evaluated(started, run)


@pytest.mark.matrix
@each(OTHERS)
def test_other_package_is_built_and_evaluated(others: Started, run: PackageRun) -> None:
    check_built(others, run)
    check_evaluated(others, run)


def check_built(started: Started, run: PackageRun) -> None:
    """With the release that it must resolve to."""
    version = started.versions[run.package]
    assert version.state is VersionState.READY, f"{version.failure}\n{version.checks}"
    resolve = next(check.summary for check in version.checks if check.name == "resolve")
    assert f"verifiers {run.verifiers}," in resolve


def check_evaluated(started: Started, run: PackageRun) -> None:
    """With the rewards, metrics and failures of the run."""
    stack = started.stack
    view = stack.finished(started.evaluations[run.name])
    assert view.state is RunState.SUCCEEDED, stack.run_log(view.run_id or "")[-3000:]
    records = records_of(stack, view.id, run)
    first = records[0]
    assert [record.reward for record in records] == pytest.approx(list(run.rewards)), first.failure
    assert {name: first.metrics.get(name) for name in run.metrics} == run.metrics
    assert run.stop is None or first.stop_condition == run.stop
    assert (first.advantage is not None) == run.advantages
    assert run.failure is None or (first.failure is not None and first.failure.kind == run.failure)
    assert view.summary.stored == view.summary.planned == (run.example + 1) * run.rollouts


def records_of(stack: Stack, evaluation_id: str, run: PackageRun) -> list[RolloutRecord]:
    """The rollouts of the run's example."""
    with stack.client() as hub:
        return [hub.evaluations.rollout(evaluation_id, run.example, rollout) for rollout in range(run.rollouts)]


def test_model_calls_of_a_judge_are_accounted_apart(started: Started) -> None:
    view = started.stack.finished(started.evaluations["e2e-judge"])
    assert view.summary.usage.completion_tokens == 2 * len("yes ")  # two rollouts; the mark that ends it is a token
    assert view.summary.judge_usage.completion_tokens == 2 * len("yes ")


def test_each_turn_keeps_the_sampled_tokens(started: Started) -> None:
    started.stack.finished(started.evaluations["e2e-early-tasks"])
    record = records_of(started.stack, started.evaluations["e2e-early-tasks"], FIRST["e2e-early-tasks"])[0]
    assert len(record.turns) == 2
    assert all(turn.tokens and len(turn.tokens.logprobs) == len(turn.tokens.completion_ids) for turn in record.turns)
