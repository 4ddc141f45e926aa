"""One measured step of our learner or of the padded one, as a process: `-m tests.bench.train_side SIDE SHAPE`."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch

from tests.bench import train_padded, train_shapes
from tests.bench.train_shapes import CLIP, Row
from workers.training.learner.batches import to_device
from workers.training.learner.directory.config import LearnerConfig, LossConfig
from workers.training.learner.gradients import add_gradients
from workers.training.learner.head import default_chunk
from workers.training.learner.masters import Masters
from workers.training.learner.metrics import StepMeter
from workers.training.learner.model import make_policy
from workers.training.packing.plan import PackingOptions, pack_step
from workers.training.samples.rollout import RolloutKey
from workers.training.samples.sample import Sample


def sample(row: Row, index: int) -> Sample:
    """A rollout as the learner takes it."""
    prompt, completion = len(row.prompt), len(row.completion)
    blank = np.zeros(prompt, dtype=np.float32)
    train = np.arange(prompt + completion) >= prompt
    return Sample(
        ids=np.array(row.prompt + row.completion, dtype=np.int32),
        train=train,
        logprobs=np.concatenate([blank, np.array(row.logprobs, dtype=np.float32)]),
        advantages=np.where(train, np.float32(row.advantage), np.float32(0)),
        versions=np.where(train, 0, -1).astype(np.int32),
        turns=np.where(train, 0, -1).astype(np.int32),
        rollout=RolloutKey(row.group, index),
    )


def ours(rows: list[Row], *, share: bool, budget: int) -> Callable[[], float]:
    """Our step, from samples to gradients and metrics."""
    config = LearnerConfig(mode="full", loss=LossConfig(name="dapo", clip_low=CLIP, clip_high=CLIP))
    policy = make_policy(train_shapes.model(), config)
    samples = [sample(row, index) for index, row in enumerate(rows)]

    def step() -> float:
        masters, meter = Masters(policy.trained()), StepMeter(policy.device)
        (batches,) = pack_step(samples, PackingOptions(budget=budget, share_prefixes=share))
        denominator = float(sum(each.trained for each in samples))
        chunk = default_chunk(policy.head.shape[0], policy.device)
        for batch in batches:
            placed = to_device(batch, denominator=denominator, device=policy.device, precise=torch.float32)
            output = add_gradients(policy, masters, placed, config.loss, chunk=chunk)
            meter.add(output, placed.targets, batch.tokens)
        return float(meter.sums[0])

    return step


def padded(rows: list[Row]) -> Callable[[], float]:
    """The naive step."""
    model = train_shapes.model()
    model.train()
    return lambda: train_padded.step(model, rows)


def main() -> None:
    """Command line: one measured step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["ours", "padded"])
    parser.add_argument("shape", choices=train_shapes.SHAPES)
    parser.add_argument("--no-sharing", action="store_true")
    parser.add_argument("--budget", type=int, default=4096)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = train_shapes.rows(options.shape)
    share = not options.no_sharing
    step = ours(rows, share=share, budget=options.budget) if options.side == "ours" else padded(rows)
    base, began = train_shapes.peak_bytes(), time.process_time()
    loss = step()
    seconds = time.process_time() - began
    print("RESULT " + json.dumps({"loss": loss, "seconds": seconds, "bytes": train_shapes.peak_bytes() - base}))


if __name__ == "__main__":
    main()
