"""Run by torchrun in test_sharding: the steps of a world, their gradient norms and state to files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from tests.workers.training.learner.making import batch, model, samples
from workers.training.learner import step
from workers.training.learner.checkpoint import restore_checkpoint, save_checkpoint
from workers.training.learner.directory.config import LearnerConfig, OptimiserConfig
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.gradients import add_gradients
from workers.training.learner.head import HeadOutput
from workers.training.learner.masters import Masters
from workers.training.learner.model import Policy, make_policy
from workers.training.learner.publish import publish
from workers.training.learner.sharding import shard
from workers.training.learner.step import Learner
from workers.training.learner.world import World, join_world


def learner(mode: str, world: World, *, compute: torch.dtype = torch.float32, hybrid: bool = False) -> Learner:
    """A learner whose AdamW follows the gradient's size: a large epsilon, no clipping."""
    optimiser = OptimiserConfig(learning_rate=1e-1, epsilon=1.0, max_grad_norm=0)
    config = LearnerConfig(mode=mode, optimiser=optimiser)  # type: ignore[arg-type]
    policy = make_policy(model(tied=mode == "full"), config)
    shard(policy, world, compute=compute, hybrid=hybrid)
    return Learner(policy, config, world)


def note_splits(splits: list[str]) -> None:
    """After every micro-batch, how many of the split weights have a gradient, which is split as they are."""
    real = add_gradients

    def noting(policy: Policy, masters: Masters, *given: Any, **named: Any) -> HeadOutput:
        output = real(policy, masters, *given, **named)
        split = [master for master in masters.named.values() if isinstance(master, DTensor)]
        splits.append(f"{sum(isinstance(master.grad, DTensor) for master in split)} of {len(split)}")
        return output

    setattr(step, "add_gradients", noting)  # noqa: B010


def steps(made: Learner, run: RunDir) -> list[float]:
    """Two steps with a checkpoint and a restore between them; their gradient norms."""
    norms = [made.train(batch(1, samples(groups=5)), budget=60).grad_norm]
    save_checkpoint(made, run)
    made.train(batch(2, samples(seed=9)), budget=60)
    if made.world.size > 1:
        torch.distributed.barrier()
    restore_checkpoint(made, run, replayable_from=1)
    norms.append(made.train(batch(2, samples(groups=5, seed=1)), budget=60).grad_norm)
    save_checkpoint(made, run)
    np.save(run.root / f"logprobs-{made.world.rank}.npy", made.logprobs)
    publish(made, run)
    return [norm or 0.0 for norm in norms]


def main() -> None:
    """FOLDER [hybrid]: all cases, one after the other. Ranks but the first see no files, as on another host."""
    torch.set_num_threads(1)
    splits: list[str] = []
    note_splits(splits)
    hybrid = len(sys.argv) > 2
    with join_world("cpu") as world:
        cases = {"full": torch.float32, "lora": torch.float32, "full bf16": torch.bfloat16}
        for case, compute in cases.items():
            run = RunDir(Path(sys.argv[1]) / (case if world.rank < world.local else f"elsewhere/{case}"))
            run.root.mkdir(parents=True, exist_ok=True)
            splits.clear()
            norms = steps(learner(case.split()[0], world, compute=compute, hybrid=hybrid), run)
            if world.rank == 0:
                (run.root / "norms").write_text(" ".join(map(str, norms)))
                (run.root / "splits").write_text("\n".join(splits))


if __name__ == "__main__":
    main()
