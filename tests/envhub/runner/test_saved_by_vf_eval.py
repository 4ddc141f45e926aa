"""What vf-eval saves and what the runner reports are known as the same examples, by the real releases."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from envhub.packaging.example_content import content_hash
from envhub.packaging.saved.finding import read_saved_results
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runner import Hello

from tests.corpus.rewards import PROGRAM
from tests.envhub.runner.runner_process import PACKAGES, RunnerProcess, group
from tests.envhub.runner.venvs import python_of
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.matrix]  # saved files of each release: tests/envhub/packaging/saved
EXAMPLES, ROLLOUTS = 3, 2
RELEASES = {"v0_facts": ("0.1.10", "0.1.12", "0.1.14", "0.3.1"), "current_words": ("0.2.1", "0.3.1", "0.4.0")}
CASES = [(name, one) for name, releases in RELEASES.items() for one in releases]


async def both(release: str, module: str, url: str, folder: Path) -> list[dict[int, set[str]]]:
    """Example -> the contents of its rollouts, as vf-eval saves them and as the runner reports them."""
    await vf_eval(release, folder, module, url, str(EXAMPLES), str(ROLLOUTS))
    (file,) = [*folder.rglob("results.jsonl"), *folder.rglob("traces.jsonl")]
    saved = read_saved_results(file.parent).records
    assert len({(record.example, record.example_hash) for record in saved}) == EXAMPLES
    async with RunnerProcess(python_of(release)) as runner:
        assert isinstance(await runner.load(module), Hello)
        hosted = await runner.rollouts(*(group(url, example, n=ROLLOUTS) for example in range(EXAMPLES)))
    return [contents(records) for records in (saved, hosted)]


async def vf_eval(release: str, folder: Path, *arguments: str) -> None:
    """Run the release's own command in `folder`."""
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(PACKAGES)}
    command = await asyncio.create_subprocess_exec(
        python_of(release), PROGRAM, *arguments, cwd=folder, env=environment, stdout=sys.stderr, stderr=sys.stderr
    )
    assert await command.wait() == 0


def contents(records: list[RolloutRecord] | tuple[RolloutRecord, ...]) -> dict[int, set[str]]:
    """By example."""
    found: dict[int, set[str]] = {}
    for record in records:
        found.setdefault(record.example, set()).add(content_hash(record))
    return found


@pytest.mark.parametrize(("module", "release"), CASES)
async def test_what_a_release_saves_is_of_the_runners_examples(module: str, release: str, tmp_path: Path) -> None:
    async with PolicyEndpoint() as endpoint:
        saved, hosted = await both(release, module, endpoint.base_url, tmp_path)
    assert saved == hosted
    assert [len(found - {""}) for found in saved.values()] == [1, 1, 1]
