"""A stopped run leaves what it has trained, and a checkpoint: it resumes from there, and others begin with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from envhub.protocol.training.runs import StoredFiles
from safetensors.torch import load

from tests.workers.training.runs.test_run import SMALL

pytestmark = [pytest.mark.sandbox, pytest.mark.torch]
CONFIG = SMALL | {"max_steps": 500, "checkpoints": {"interval": 0}}


async def stopped(trainings: Any) -> Any:
    """Run, and stop as soon as a step is reported."""
    run = trainings.queue(trainings.payload(**CONFIG))
    task = asyncio.create_task(trainings.run(run))
    while not trainings.steps():
        assert not task.done(), run.log
        await asyncio.sleep(0.05)
    run.cancel = True
    finish = await task
    assert finish.state == "cancelled", run.log
    return run


async def test_a_stopped_run_saves_where_it_was_and_leaves_nothing(trainings: Any) -> None:
    run = await stopped(trainings)
    (checkpoint,) = trainings.reports("checkpoints")
    told = [step.step for step in trainings.steps()]
    assert told == list(range(1, checkpoint["step"] + 1))
    assert not checkpoint["final"]
    assert [(one["step"], one["final"]) for one in trainings.reports("adapters")] == [(checkpoint["step"], False)]
    assert f"ended after step {checkpoint['step']}" in run.log
    assert not list((trainings.data / "children").iterdir())
    assert not list((trainings.data / "training").iterdir())


@pytest.mark.matrix
async def test_a_run_that_masters_its_task_ends_before_its_last_step_with_what_it_has_learnt(trainings: Any) -> None:
    config = CONFIG | {"batch_size": 8, "trainer": SMALL["trainer"] | {"max_off_policy": 0}}
    finish = await trainings.finish(**config, env=[{"id": "alice/soon-mastered"}])
    log = trainings.hub.runs["r0"].log
    assert finish.state == "succeeded", log
    assert "nothing is left to learn: 128 groups in a row could not train (zero signal 128; mean reward 1.00)" in log
    steps = [step.step for step in trainings.steps()]
    assert 1 <= steps[-1] < CONFIG["max_steps"]
    assert trainings.reports("checkpoints")[-1]["step"] == steps[-1]
    assert trainings.reports("adapters")[-1]["step"] == steps[-1]
    assert not list((trainings.data / "training").iterdir())


@pytest.mark.matrix
async def test_a_task_that_is_mastered_before_the_first_batch_is_full_fails_with_the_reason(trainings: Any) -> None:
    """Of four groups a batch only two can have a wrong answer. Without an end it would wait for its learner."""
    config = CONFIG | {"trainer": SMALL["trainer"] | {"max_off_policy": 0}}
    async with asyncio.timeout(240):
        finish = await trainings.finish(**config, env=[{"id": "alice/soon-mastered", "args": {"first": 4}}])
    assert finish.state == "failed"
    assert finish.failure.code == "nothing_to_learn"
    assert "rollouts_per_example" in finish.failure.hint
    assert not trainings.steps()


@pytest.mark.matrix
async def test_a_stopped_run_resumes_after_its_last_step(trainings: Any) -> None:
    run = await stopped(trainings)
    resume = trainings.resume_state()
    payload = trainings.payload(**CONFIG | {"max_steps": resume.step + 1})
    run.payload = payload.model_copy(update={"resume": resume, "reported_steps": resume.step}).model_dump(mode="json")
    run.cancel = False
    finish = await trainings.run(run)
    assert finish.state == "succeeded", run.log
    assert [step.step for step in trainings.steps()] == list(range(1, resume.step + 2))


@pytest.mark.matrix
async def test_another_run_begins_with_the_weights_of_a_checkpoint(trainings: Any) -> None:
    await stopped(trainings)
    warm = StoredFiles(files=trainings.resume_state().files)
    before = adapter(trainings, trainings.reports("checkpoints")[-1]["files"]["weights/adapter_model.safetensors"])
    config = SMALL | {"max_steps": 1, "learning_rate": 1e-12}  # it changes nothing that can be seen
    run = trainings.queue(trainings.payload(**config).model_copy(update={"warm_start": warm}))
    finish = await trainings.run(run)
    assert finish.state == "succeeded", run.log
    after = adapter(trainings, trainings.reports("adapters")[-1]["files"]["adapter_model.safetensors"])
    assert any(float(tensor.abs().max()) > 1e-6 for name, tensor in before.items() if "lora_B" in name)
    assert before.keys() == after.keys()
    assert max(float((before[name] - after[name]).abs().max()) for name in before) < 1e-9


def adapter(trainings: Any, sha256: str) -> dict[str, Any]:
    """The tensors of a stored adapter."""
    return dict(load(trainings.hub.blobs[sha256]))
