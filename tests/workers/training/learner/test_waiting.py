"""The host never waits for the device inside of a step: every operation that reads a value back is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.workers.training.learner.making import batch, model, samples
from workers.training.learner.batches import to_device
from workers.training.learner.directory.config import LearnerConfig, LossConfig
from workers.training.learner.gradients import add_gradients
from workers.training.learner.masters import Masters
from workers.training.learner.metrics import StepMeter, TokenMeter
from workers.training.learner.model import make_policy
from workers.training.learner.token_logprobs import Places
from workers.training.packing.plan import PackingOptions, pack_step

pytestmark = pytest.mark.torch
READING = {"_local_scalar_dense", "is_nonzero", "nonzero", "bincount", "masked_select", "unique", "unique_consecutive"}


class Unread(TorchDispatchMode):
    """Raises where a GPU would have to finish its work first."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket.__name__ not in READING, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("loss", ["dapo", "gspo"])
@pytest.mark.parametrize("mode", ["lora", "full"])
def test_a_micro_batch_is_never_waited_for(mode: Any, loss: Any) -> None:
    config = LearnerConfig(mode=mode, loss=LossConfig(name=loss))
    policy = make_policy(model(), config)
    whole = batch(1, samples())
    masters, device = Masters(policy.trained()), policy.device
    meter, known = StepMeter(device), TokenMeter(Places.of(whole.samples), device)
    (batches,) = pack_step(whole.samples, PackingOptions(budget=60, share_prefixes=True))
    with Unread():
        for each in batches:
            placed = to_device(each, denominator=whole.denominator, device=device, precise=torch.float32)
            output = add_gradients(policy, masters, placed, config.loss, chunk=8)
            meter.add(output, placed.targets, each.tokens)
            known.add(output, each)
    assert len(batches) > 1
    assert float(meter.sums[0])
