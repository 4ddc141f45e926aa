"""What vf-eval saves and what the runner reports are known as the same examples, by the real releases."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from envhub.packaging.example_content import content_hash
from envhub.packaging.saved_results import read_saved_results
from envhub.protocol.rollouts import RolloutRecord
from envhub.protocol.runner import Hello

from tests.envhub.runner.runner_process import PACKAGES, RunnerProcess, group
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = pytest.mark.verifiers
EXAMPLES, ROLLOUTS = 3, 2
LEGACY = ["0.1.14", *(pytest.param(release, marks=pytest.mark.matrix) for release in ("0.1.10", "0.1.12", "0.3.1"))]
CURRENT = ["0.4.0", pytest.param("0.3.1", marks=pytest.mark.matrix)]


async def both(release: str, module: str, url: str, folder: Path, *options: str) -> list[dict[int, set[str]]]:
    """Example -> the contents of its rollouts, as vf-eval saves them and as the runner reports them."""
    await vf_eval(release, folder, module, "-m", "m", "-n", str(EXAMPLES), "-r", str(ROLLOUTS), *options)
    (file,) = [*folder.rglob("results.jsonl"), *folder.rglob("traces.jsonl")]
    saved = read_saved_results(file.parent).records
    assert len({(record.example, record.example_hash) for record in saved}) == EXAMPLES
    async with RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load(module), Hello)
        hosted = await runner.rollouts(*(group(url, example, n=ROLLOUTS) for example in range(EXAMPLES)))
    return [contents(records) for records in (saved, hosted)]


async def vf_eval(release: str, folder: Path, *arguments: str) -> None:
    """Run the release's own command in `folder`."""
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(PACKAGES), "KEY": "none"}
    program = python_of(release).with_name("vf-eval")
    if "--client.base-url" in arguments and (renamed := program.with_name("eval")).exists():  # in 0.3.1
        program = renamed
    command = await asyncio.create_subprocess_exec(
        program, *arguments, cwd=folder, env=environment, stdout=sys.stderr, stderr=sys.stderr
    )
    assert await command.wait() == 0


def contents(records: list[RolloutRecord] | tuple[RolloutRecord, ...]) -> dict[int, set[str]]:
    """By example."""
    found: dict[int, set[str]] = {}
    for record in records:
        found.setdefault(record.example, set()).add(content_hash(record))
    return found


@pytest.mark.parametrize("release", LEGACY)
async def test_results_of_a_legacy_release_are_those_of_the_runners_examples(release: str, tmp_path: Path) -> None:
    async with PolicyEndpoint() as endpoint:
        options = ("-b", endpoint.base_url, "-k", "KEY", "-s")
        saved, hosted = await both(release, "v0_facts", endpoint.base_url, tmp_path, *options)
    assert saved == hosted
    assert [len(found - {""}) for found in saved.values()] == [1, 1, 1]


@pytest.mark.parametrize("release", CURRENT)
async def test_traces_of_a_current_release_are_those_of_the_runners_examples(release: str, tmp_path: Path) -> None:
    async with PolicyEndpoint() as endpoint:
        options = (
            *("--client.base-url", endpoint.base_url, "--client.api-key-var", "KEY", "-c", "2"),
            *("--env.agent.runtime.type", "subprocess", "--env.agent.harness.id", "null"),
            *("--no-rich", "--no-push", "-o", str(tmp_path)),
        )
        saved, hosted = await both(release, "current_words", endpoint.base_url, tmp_path, *options)
    assert saved == hosted
    assert [len(found - {""}) for found in saved.values()] == [1, 1, 1]
