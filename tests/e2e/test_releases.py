"""The sample environments under every supported release of verifiers, pinned: push, build, hosted evaluation."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.registry.packages import VersionState, VersionView
from envhub.protocol.runs import RunState

from tests.e2e.package_runs import PACKAGES
from tests.e2e.stack import ROOT, Stack, answer_text
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.matrix, pytest.mark.verifiers, pytest.mark.sandbox]
LEGACY_RELEASES = ("0.1.9", "0.1.10", "0.1.11", "0.1.12", "0.1.14", "0.1.15.dev11", "0.3.1")
LEGACY_SAMPLES = ("reverse-text", "arithmetic", "calculator-tool", "guess-number", "mixed")
CASES = (
    *((release, sample) for release in LEGACY_RELEASES for sample in LEGACY_SAMPLES),
    *((release, sample) for release in ("0.1.5", "0.1.7") for sample in ("reverse-text", "arithmetic")),
    ("0.1.14", "reasoning-tasks"),
    ("0.1.15.dev11", "reverse-text-harness"),
    ("0.3.1", "word-count"),
    ("0.4.0", "word-count"),
)
EXAMPLES, ROLLOUTS = 3, 2


@dataclass
class Started:
    """Versions and, of those that are ready, evaluations; by case."""

    tester: Stack
    versions: dict[tuple[str, str], VersionView] = field(default_factory=dict)
    evaluations: dict[tuple[str, str], str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def started(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Everything pushed and built by an owner of its own, every evaluation queued."""
    started = Started(stack.as_user("releases"))
    tester = started.tester
    model = tester.register(PolicyEndpoint(answer=answer_text("hello")))
    with ThreadPoolExecutor(2) as pool:
        copies = [pinned(tmp_path_factory.mktemp("pinned"), release, sample) for release, sample in CASES]
        for case, pushed in zip(CASES, pool.map(tester.push, copies), strict=True):
            started.versions[case] = version = tester.wait_ready(pushed)
            if version.state is VersionState.READY:
                config = EvaluationConfig(
                    environment=f"{version.owner}/{version.name}@{version.version}",
                    model=model,
                    num_examples=EXAMPLES,
                    rollouts_per_example=ROLLOUTS,
                    max_retries=0,
                )
                started.evaluations[case] = tester.evaluate(config).id
    return started


def pinned(folder: Path, release: str, sample: str) -> Path:
    """A copy of a sample that asks for exactly one release, as a version of its own."""
    target = folder / sample
    shutil.copytree(
        ROOT / "environments" / sample, target, ignore=shutil.ignore_patterns("__pycache__", "tests", "*.egg-info")
    )
    number = sorted({release for release, _ in CASES}).index(release)
    project = target / "pyproject.toml"
    text = re.sub(r'"verifiers[^"]*"', f'"verifiers=={release}"', project.read_text())
    project.write_text(text.replace('version = "0.1.0"', f'version = "0.1.{number}"'))
    return target


@pytest.mark.parametrize(("release", "sample"), CASES)
def test_sample_runs_on_a_release(started: Started, release: str, sample: str) -> None:
    tester, version = started.tester, started.versions[release, sample]
    assert version.state is VersionState.READY, f"{version.failure}\n{version.checks}"
    resolved = next(check.summary for check in version.checks if check.name == "resolve")
    assert f"verifiers {release}," in resolved
    view = tester.finished(started.evaluations[release, sample])
    assert view.state is RunState.SUCCEEDED, tester.run_log(view.run_id or "")[-3000:]
    failures = {row.failure_message for row in tester.rollouts(view.id)} - {""}
    assert (view.summary.scored, failures) == (EXAMPLES * ROLLOUTS, set())


def test_a_package_between_two_releases_finds_the_one_that_it_was_written_for(stack: Stack) -> None:
    version = stack.wait_ready(stack.push(PACKAGES / "e2e-config-source"))
    assert all(check.passed for check in version.checks), version.checks
    assert "verifiers 0.1.15.dev7," in version.checks[0].summary
    model = stack.register(PolicyEndpoint(answer=answer_text("hello")))
    view = stack.cli("eval", "run", "e2e-config-source", "-m", model, "-n", "2", "-r", "1", "--json").json
    assert view["summary"]["reward"]["mean"] == 0.5
