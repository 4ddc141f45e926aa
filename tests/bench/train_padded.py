"""A naive learner to compare with: padded rectangles, all logits of completions, autograd through everything."""

from __future__ import annotations

from typing import Any

import torch

from tests.bench.train_shapes import CLIP, Row


def step(model: Any, rows: list[Row], *, micro_batch: int = 8) -> float:
    """Gradients of one optimiser step; returns its loss. Rectangles are as wide as the step's longest parts."""
    longest_prompt, longest = max(len(r.prompt) for r in rows), max(len(r.completion) for r in rows)
    trained = sum(len(r.completion) for r in rows)
    total = 0.0
    for start in range(0, len(rows), micro_batch):
        loss = _loss(model, rows[start : start + micro_batch], longest_prompt, longest) / trained
        loss.backward()
        total += float(loss.detach())
    return total


def _loss(model: Any, rows: list[Row], longest_prompt: int, longest: int) -> torch.Tensor:
    ids = torch.zeros(len(rows), longest_prompt + longest, dtype=torch.long)
    seen, logmu, trained = torch.zeros_like(ids), torch.zeros(len(rows), longest), torch.zeros(len(rows), longest)
    for at, row in enumerate(rows):
        prompt, completion = len(row.prompt), len(row.completion)
        ids[at, longest_prompt - prompt : longest_prompt] = torch.tensor(row.prompt)
        ids[at, longest_prompt : longest_prompt + completion] = torch.tensor(row.completion)
        seen[at, longest_prompt - prompt : longest_prompt + completion] = 1
        logmu[at, :completion] = torch.tensor(row.logprobs)
        trained[at, :completion] = 1
    positions = (seen.cumsum(-1) - 1).clamp(min=0)
    output = model(
        input_ids=ids, attention_mask=seen, position_ids=positions, use_cache=False, logits_to_keep=longest + 1
    )
    logp = torch.log_softmax(output.logits[:, :-1], -1).gather(-1, ids[:, longest_prompt:, None]).squeeze(-1)
    ratio, advantage = torch.exp(logp - logmu), torch.tensor([row.advantage for row in rows])[:, None]
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
    return -(surrogate * trained).sum()
