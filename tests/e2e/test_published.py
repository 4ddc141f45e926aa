"""The published trainer skill's workflow by our command line: info, init, local eval, push, hosted eval."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.package_runs import V0
from tests.e2e.stack import Stack
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import Body, PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
NAME = "my-env"
EXAMPLES = 25


def half_right(body: Body) -> str:
    """A sum that is right when its first number is even; always in the asked form."""
    first, second = map(int, re.findall(r"\d+", str(body["messages"][-1]["content"]))[:2])
    return f"<answer>{first + second + first % 2}</answer>"


@pytest.fixture(scope="module")
def model(stack: Stack) -> str:
    """A model that is right about half the time."""
    return stack.register(PolicyEndpoint(answer=half_right))


@pytest.fixture(scope="module")
def project(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Step 2: a directory with the package in ./environments."""
    folder = tmp_path_factory.mktemp("project")
    stack.cli("init", NAME, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def pushed(stack: Stack, project: Path) -> str:
    """Step 6."""
    done = stack.cli("push", NAME, "--json", cwd=project).json
    assert done["version"]["state"] == "ready"
    return f"{stack.user}/{NAME}"


def check_distribution(results: Path) -> None:
    """Step 5's table: samples, mean, spread, format."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in results.read_text().splitlines()]
    rewards = [row["reward"] for row in rows]
    assert len(rewards) >= 20
    assert 0.05 < statistics.mean(rewards) < 1.15
    assert statistics.stdev(rewards) > 0.05
    metrics = [row.get("metrics") or row for row in rows]
    assert statistics.mean(metric["format_reward_func"] for metric in metrics) > 0.3
    assert statistics.mean(metric["correct_answer"] for metric in metrics) == pytest.approx(
        statistics.mean(reward - 0.2 for reward in rewards)
    )


def test_info_of_an_absent_environment_exits_with_1(stack: Stack) -> None:
    assert stack.cli("env", "info", f"{stack.user}/no-such-env", code=1).err


def test_init_writes_the_three_required_files(project: Path) -> None:
    package = project / "environments" / NAME
    assert {"my_env.py", "pyproject.toml", "README.md"} <= {path.name for path in package.iterdir()}


def test_local_evaluation_calls_the_hub_and_leaves_results(stack: Stack, project: Path, model: str) -> None:
    python = str(python_of(V0))
    arguments = ("-m", model, "-n", str(EXAMPLES), "-r", "1", "--python", python, "--skip-upload")
    stack.cli("eval", "run", NAME, "--local", *arguments, cwd=project)
    check_distribution(project / "outputs" / "evals" / NAME / "results.jsonl")


def test_local_results_are_uploaded_by_default(stack: Stack, project: Path, model: str, pushed: str) -> None:
    arguments = ("-m", model, "-n", "2", "-r", "2", "--python", str(python_of(V0)), "--json")
    done = stack.cli("eval", "run", NAME, "--local", *arguments, cwd=project).json
    assert done["evaluation"]["source"] == "pushed"
    assert done["evaluation"]["summary"]["stored"] == 4


def test_info_of_a_pushed_environment_exits_with_0(stack: Stack, pushed: str) -> None:
    assert NAME in stack.cli("env", "info", pushed).out


def test_pushing_again_changes_nothing(stack: Stack, project: Path, pushed: str) -> None:
    assert stack.cli("push", NAME, "--json", cwd=project).json["created"] is False


@pytest.mark.matrix
def test_hosted_results_can_be_pulled_for_the_same_check(stack: Stack, model: str, pushed: str, tmp_path: Path) -> None:
    arguments = ("-m", model, "-n", str(EXAMPLES), "-r", "1", "--json")
    view = stack.cli("eval", "run", pushed, *arguments).json
    assert view["state"] == "succeeded"
    stack.cli("eval", "pull", view["id"], str(tmp_path / "pulled"))
    check_distribution(tmp_path / "pulled" / "results.jsonl")
