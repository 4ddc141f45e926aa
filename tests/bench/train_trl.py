"""TRL 1.16's learner on the same rollouts: run by `bench_train` with the interpreter of an environment that has TRL.

PYTHONPATH=. PYTHON_WITH_TRL -m tests.bench.train_trl SHAPE
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from tests.bench import train_shapes
from tests.bench.train_shapes import CLIP, Row

MICRO_BATCH = 8


def tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """One word a token; the trainer only wants its special tokens."""
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(vocabulary)}, unk_token="t1"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="t0", eos_token="t2", unk_token="t1")


def trainer(model: Any, folder: str, vocabulary: int, **settings: Any) -> GRPOTrainer:
    """TRL's trainer, of which only `_compute_loss` is used."""
    config = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=MICRO_BATCH,
        gradient_accumulation_steps=4,
        num_generations=8,
        use_cpu=True,
        bf16=False,
        report_to=[],
        max_completion_length=train_shapes.LONGEST,
        gradient_checkpointing=False,
        epsilon=CLIP,
        **settings,
    )
    made = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["t5 t6"] * 32}),
        processing_class=tokenizer(vocabulary),
    )
    made.current_gradient_accumulation_steps = 4
    made.model.train()
    return made


def rectangles(rows: list[Row]) -> list[dict[str, torch.Tensor]]:
    """Micro-batches as TRL pads them: to the longest of the whole generation batch."""
    longest_prompt, longest = max(len(r.prompt) for r in rows), max(len(r.completion) for r in rows)
    trained = float(sum(len(r.completion) for r in rows))
    return [
        _rectangle(rows[s : s + MICRO_BATCH], longest_prompt, longest, trained)
        for s in range(0, len(rows), MICRO_BATCH)
    ]


def _rectangle(rows: list[Row], longest_prompt: int, longest: int, trained: float) -> dict[str, torch.Tensor]:
    prompt, completion = (torch.zeros(len(rows), width, dtype=torch.long) for width in (longest_prompt, longest))
    prompt_mask, completion_mask = torch.zeros_like(prompt), torch.zeros_like(completion)
    logmu = torch.zeros(len(rows), longest)
    for at, row in enumerate(rows):
        prompt[at, longest_prompt - len(row.prompt) :] = torch.tensor(row.prompt)
        prompt_mask[at, longest_prompt - len(row.prompt) :] = 1
        completion[at, : len(row.completion)] = torch.tensor(row.completion)
        completion_mask[at, : len(row.completion)] = 1
        logmu[at, : len(row.completion)] = torch.tensor(row.logprobs)
    return {
        "prompt_ids": prompt,
        "prompt_mask": prompt_mask,
        "completion_ids": completion,
        "completion_mask": completion_mask,
        "advantages": torch.tensor([row.advantage for row in rows]),
        "old_per_token_logps": logmu,
        "num_items_in_batch": torch.tensor(trained),
    }


def main() -> None:
    """Command line: one measured step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=train_shapes.SHAPES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = train_shapes.rows(options.shape)
    with tempfile.TemporaryDirectory() as folder:
        made = trainer(train_shapes.model(), folder, train_shapes.VOCABULARY)
        batches = rectangles(rows)
        base, began, loss = train_shapes.peak_bytes(), time.process_time(), 0.0
        for batch in batches:
            part = made._compute_loss(made.model, batch)
            part.backward()
            loss += float(part.detach())
        seconds = time.process_time() - began
    print("RESULT " + json.dumps({"loss": loss, "seconds": seconds, "bytes": train_shapes.peak_bytes() - base}))


if __name__ == "__main__":
    main()
