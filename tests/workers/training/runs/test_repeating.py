"""`deterministic`: a run gives the same bits again, also when engine, learner, runner or worker were killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import pytest

from tests.workers.training.runs.striking import WHO, moments, strike_when
from tests.workers.training.runs.trainings import ROOT, Trainings

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]
STEPS = 3
CONFIG: dict[str, Any] = {
    "max_steps": STEPS,
    "batch_size": 16,
    "rollouts_per_example": 4,
    "learning_rate": 2e-3,
    "sampling": {"max_tokens": 6},
    "checkpoints": {"interval": 1},
    "trainer": {"rank": 4, "token_budget": 2048, "deterministic": True, "engine": "torch"},
}


def final_weights(trainings: Trainings) -> str:
    """Hash of the adapter that the run ended with."""
    (report,) = trainings.reports("adapters")
    return str(report["files"]["adapter_model.safetensors"])


def batches(trainings: Trainings) -> dict[str, str]:
    """Hash of each step's journaled batch."""
    found = {}
    for report in trainings.reports("checkpoints"):
        found |= {name: sha256 for name, sha256 in report["files"].items() if name.startswith("journal/step")}
    return found


@pytest.fixture(scope="session")
def undisturbed() -> dict[str, tuple[str, dict[str, str]]]:
    """Filled by the first test that needs it."""
    return {}


async def reference(trainings: Trainings, known: dict[str, tuple[str, dict[str, str]]]) -> tuple[str, dict[str, str]]:
    """Final weights and batches of a run that nothing happened to."""
    if "run" not in known:
        other = Trainings(trainings.hub, trainings.data / "undisturbed", trainings.model)
        other.data.mkdir()
        finish = await other.finish(**CONFIG)
        assert finish.state == "succeeded", trainings.hub.runs["r0"].log
        known["run"] = (final_weights(other), batches(other))
        trainings.hub.training.clear()
        trainings.hub.runs.clear()
    return known["run"]


async def test_a_run_repeats_bit_for_bit(trainings: Trainings, undisturbed: Any) -> None:
    weights, steps = await reference(trainings, undisturbed)
    finish = await trainings.finish(**CONFIG)
    assert finish.state == "succeeded"
    assert batches(trainings) == steps
    assert final_weights(trainings) == weights


@pytest.mark.parametrize("moment", ["while sampling", "after a batch was journaled", "after weights were published"])
@pytest.mark.parametrize("who", list(WHO))
async def test_killing_a_process_changes_no_bit(trainings: Trainings, undisturbed: Any, who: str, moment: str) -> None:
    weights, steps = await reference(trainings, undisturbed)
    run = trainings.queue(trainings.payload(**CONFIG))
    task = asyncio.create_task(trainings.run(run))
    await strike_when(trainings, who, moments(trainings)[moment], task, signal.SIGKILL)
    finish = await task
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert [step.step for step in trainings.steps()] == list(range(1, STEPS + 1))
    assert batches(trainings) == steps
    assert final_weights(trainings) == weights


async def start_worker(trainings: Trainings, run: Any) -> asyncio.subprocess.Process:
    """An attempt in a process of its own."""
    claim = trainings.hub.claim(run).model_dump_json()
    command = [sys.executable, "-m", "tests.workers.training.runs.worker", trainings.hub.url, claim]
    return await asyncio.create_subprocess_exec(*command, str(trainings.data), cwd=ROOT)


@pytest.mark.parametrize("moment", ["while sampling", "after a batch was journaled", "after weights were published"])
async def test_a_killed_worker_goes_on_where_it_was(trainings: Trainings, undisturbed: Any, moment: str) -> None:
    weights, steps = await reference(trainings, undisturbed)
    run = trainings.queue(trainings.payload(**CONFIG))
    first = await start_worker(trainings, run)
    while not moments(trainings)[moment]():
        assert first.returncode is None, run.log
        await asyncio.sleep(0.01)
    first.kill()
    await first.wait()
    told = [step.step for step in trainings.steps()]
    run.payload = (
        trainings.payload(**CONFIG).model_copy(update={"reported_steps": max(told, default=0)}).model_dump(mode="json")
    )
    second = await start_worker(trainings, run)
    assert await second.wait() == 0
    assert run.finish is not None
    assert run.finish.state == "succeeded", run.log
    assert sorted({step.step for step in trainings.steps()}) == list(range(1, STEPS + 1))
    assert steps.items() >= batches(trainings).items()
    assert final_weights(trainings) == weights


async def test_a_worker_killed_in_its_last_evaluation_makes_it_again(trainings: Trainings) -> None:
    config = CONFIG | {"val": {"num_examples": 20, "rollouts_per_example": 4, "interval": 100}}
    run = trainings.queue(trainings.payload(**config))
    first = await start_worker(trainings, run)
    while STEPS not in {step.step for step in trainings.steps()}:
        assert first.returncode is None, run.log
        await asyncio.sleep(0.01)
    first.kill()
    await first.wait()
    run.payload = trainings.payload(**config).model_copy(update={"reported_steps": STEPS}).model_dump(mode="json")
    second = await start_worker(trainings, run)
    assert await second.wait() == 0
    assert {point.step for point in trainings.evaluations()} == {0, STEPS}


async def test_another_worker_goes_on_from_the_uploaded_checkpoint(trainings: Trainings, undisturbed: Any) -> None:
    weights, _ = await reference(trainings, undisturbed)
    run = trainings.queue(trainings.payload(**CONFIG))
    first = await start_worker(trainings, run)
    while not trainings.reports("checkpoints"):
        assert first.returncode is None, run.log
        await asyncio.sleep(0.01)
    first.kill()
    await first.wait()
    told = max(step.step for step in trainings.steps())
    resume = trainings.resume_state()
    payload = trainings.payload(**CONFIG).model_copy(update={"resume": resume, "reported_steps": told})
    run.payload = payload.model_dump(mode="json")
    elsewhere = Trainings(trainings.hub, trainings.data.with_name("elsewhere"), trainings.model)
    elsewhere.data.mkdir()
    finish = await elsewhere.run(run)
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert trainings.steps()[-1].step == STEPS
    assert final_weights(trainings) == weights
