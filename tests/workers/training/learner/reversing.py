"""A small task for a small model: three letters of four, answered in reverse. Sampling without a cache, in torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.workers.training.learner.making import model, sample
from workers.training.credit.normalisation import normalise
from workers.training.journal.batch import StepBatch
from workers.training.learner.directory.config import LearnerConfig, LossConfig, OptimiserConfig
from workers.training.learner.model import make_policy
from workers.training.learner.step import Learner
from workers.training.learner.world import World

LETTERS, LENGTH, ASK, GROUPS, EACH = 4, 3, 4, 32, 8
WARM_UP = 30  # steps on right answers: the model then knows what to look at and is right about half of the time


@dataclass(frozen=True)
class Rollouts:
    """prompts [B, 4] (a token that asks, and the letters backwards from what is wanted), answers, logprobs [B, 3]."""

    prompts: Tensor
    answers: Tensor
    logprobs: Tensor

    @property
    def rewards(self) -> Tensor:
        """Share of right letters."""
        return (self.answers == self.prompts[:, 1:].flip(1)).double().mean(1)


@torch.no_grad()
def roll_out(made: Any, generator: torch.Generator) -> Rollouts:
    """One step's rollouts at temperature 1."""
    words = torch.randint(LETTERS, (GROUPS, LENGTH), generator=generator).repeat_interleave(EACH, 0)
    prompts = ids = torch.cat([torch.full((len(words), 1), ASK), words], 1)
    logprobs = []
    made.set_attn_implementation("sdpa")
    for _ in range(LENGTH):
        logq = torch.log_softmax(made(ids).logits[:, -1], -1)
        token = torch.multinomial(logq.exp(), 1, generator=generator)
        logprobs.append(logq.gather(1, token))
        ids = torch.cat([ids, token], 1)
    made.set_attn_implementation("packed_segments")
    return Rollouts(prompts, ids[:, LENGTH + 1 :], torch.cat(logprobs, 1))


def to_batch(step: int, rollouts: Rollouts, sign: float) -> StepBatch:
    """Group-mean advantages, times `sign`."""
    rewards = rollouts.rewards.view(GROUPS, EACH)
    advantages = (sign * (rewards - rewards.mean(1, keepdim=True))).flatten().tolist()
    columns = (rollouts.prompts.tolist(), rollouts.answers.tolist(), rollouts.logprobs.tolist())
    made = [
        sample(
            [*prompt, *answer],
            [False] * (LENGTH + 1) + [True] * LENGTH,
            advantage=advantage,
            logprobs=logprobs,
            group=number // EACH,
            index=number % EACH,
        )
        for number, (prompt, answer, logprobs, advantage) in enumerate(zip(*columns, advantages, strict=True))
    ]
    kept, denominator = normalise(made, "token")
    return StepBatch(step=step, samples=kept, denominator=denominator)


def right_answers(step: int, generator: torch.Generator) -> StepBatch:
    """What the warm-up imitates; under `reinforce` with advantage 1 this is cross-entropy."""
    words = torch.randint(LETTERS, (128, LENGTH), generator=generator).tolist()
    flags = [False] * (LENGTH + 1) + [True] * LENGTH
    made = tuple(sample([ASK, *word, *word[::-1]], flags, index=number) for number, word in enumerate(words))
    return StepBatch(step=step, samples=made, denominator=float(128 * LENGTH))


def settings(loss: LossConfig, rate: float, warmup: int) -> LearnerConfig:
    optimiser = OptimiserConfig(learning_rate=rate, betas=(0.9, 0.99), warmup_steps=warmup)
    return LearnerConfig(mode="full", loss=loss, optimiser=optimiser, prefix_sharing=False)


def learn(*, steps: int, sign: float = 1.0) -> list[float]:
    """Mean reward of each step, after the warm-up."""
    sizes = {"hidden_size": 64, "intermediate_size": 192, "vocab_size": LETTERS + 2, "head_dim": 32}
    made, generator = model(initializer_range=0.04, **sizes), torch.Generator().manual_seed(0)
    warm = settings(LossConfig(name="reinforce"), 2e-3, 20)
    learner = Learner(make_policy(made, warm), warm, World())
    for step in range(1, WARM_UP + 1):
        learner.train(right_answers(step, generator), budget=4096)
    config = settings(LossConfig(name="dapo"), 7e-4, 0)
    learner, rewards = Learner(make_policy(made, config), config, World()), []
    for step in range(1, steps + 1):
        rollouts = roll_out(made, generator)
        rewards.append(float(rollouts.rewards.mean()))
        learner.train(to_batch(step, rollouts, sign), budget=4096)
    return rewards
