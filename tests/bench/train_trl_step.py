"""TRL 1.16's whole step (generation, reward, learning) on reverse-text; prints seconds a step. Run with TRL's Python.

    PYTHONPATH=. PYTHON_WITH_TRL -m tests.bench.train_trl_step MODEL_DIR [--steps 20] [--letters 31] [--lora RANK]
Rows and reward are those of environments/reverse-text, so that the other side does the same work.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

WARM_UP = 2  # steps that are not counted
GROUP = 8


class Clock(TrainerCallback):
    """Wall and processor time at the end of each step."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Called by the trainer."""
        self.ends.append((time.perf_counter(), time.process_time()))


def make_rows(letters: int) -> list[dict[str, Any]]:
    """As environments/reverse-text makes them, in TRL's form."""
    rng = random.Random(0)
    words = ("".join(rng.choice("abcdefgh") for _ in range(letters)) for _ in range(512))
    return [{"prompt": [{"role": "user", "content": f"reverse: {word}"}], "answer": word[::-1]} for word in words]


def reversed_right(completions: list[list[dict[str, str]]], answer: list[str], **_: Any) -> list[float]:
    """The environment's reward: half for the whole, half for the share of letters in place."""
    texts = [completion[-1]["content"].strip() for completion in completions]
    return [
        0.5 * (text == right)
        + 0.5 * sum(a == b for a, b in zip(text, right, strict=False)) / max(len(text), len(right))
        for text, right in zip(texts, answer, strict=True)
    ]


def make_trainer(options: argparse.Namespace, folder: str, clock: Clock) -> GRPOTrainer:
    """TRL's trainer as its documentation sets it up, on the CPU."""
    config = GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=options.batch,
        num_generations=GROUP,
        max_completion_length=options.letters + 1,
        max_steps=options.steps,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        beta=0.0,
        temperature=1.0,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        gradient_checkpointing=False,
    )
    adapter = None
    if options.lora:
        from peft import LoraConfig  # noqa: PLC0415  # only where adapters are asked for

        adapter = LoraConfig(r=options.lora, lora_alpha=2 * options.lora, target_modules="all-linear")
    return GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32),
        reward_funcs=reversed_right,
        args=config,
        train_dataset=Dataset.from_list(make_rows(options.letters)),
        processing_class=AutoTokenizer.from_pretrained(options.model),
        peft_config=adapter,
        callbacks=[clock],
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--letters", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lora", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        make_trainer(options, folder, clock).train()
    counted = len(clock.ends) - WARM_UP
    wall, cpu = (last - first for first, last in zip(clock.ends[WARM_UP - 1], clock.ends[-1], strict=True))
    print("RESULT " + json.dumps({"seconds": wall / counted, "cpu_seconds": cpu / counted, "steps": counted}))


if __name__ == "__main__":
    main()
