"""A whole training step (sampling, environment in its box, reward, learning) against TRL 1.16's on the same work.

    python -m tests.bench.bench_train_step [--shape baseline|study|wide] [--pairs 3] [--lora RANK] [--trl PYTHON]
A fresh Qwen3 learns reverse-text, every weight, in groups of 8. `study` is the model that the learner's benchmark has,
with prompts and completions of about its lengths; `baseline` the toy of the study's TRL script, whose step is nearly
all overhead. Ours is the run that a worker does: hub (a fake one), coordinator, torch engine, learner, verifiers in a
bubblewrap box, every model call over HTTP. TRL's has no environment: its reward is a function in its own process. Both
have the whole machine; seconds by the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from unittest import mock

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from tests.bench.bench_train import make_trl, measure
from tests.fakes.hub import FakeHub
from tests.workers.training.runs.trainings import Trainings, installed, tiny_model

WARM_UP = 2  # steps that are not counted
LEAST = 1.5
THREADS = os.cpu_count() or 1


@dataclass(frozen=True)
class Shape:
    """A Qwen3 and a step of its training."""

    hidden: int
    layers: int
    head: int  # features of an attention head; half as many key-value heads as heads
    vocabulary: int | None  # tokens; None: hub/tiny's 128
    letters: int  # to reverse: a prompt has nine tokens more, a completion at most one
    batch: int  # rollouts a step
    steps: int


SHAPES = {
    "study": Shape(hidden=256, layers=6, head=64, vocabulary=32768, letters=255, batch=32, steps=5),
    "baseline": Shape(hidden=128, layers=4, head=32, vocabulary=None, letters=31, batch=64, steps=22),
    "wide": Shape(hidden=256, layers=6, head=32, vocabulary=None, letters=63, batch=64, steps=14),
}


def fresh_model(shape: Shape, folder: Path) -> Path:
    """hub/tiny's architecture and tokenizer in this shape and with fresh weights."""
    vocabulary = {"vocab_size": shape.vocabulary, "tie_word_embeddings": True} if shape.vocabulary else {}
    config = AutoConfig.from_pretrained(
        tiny_model(),
        num_hidden_layers=shape.layers,
        layer_types=["full_attention"] * shape.layers,
        hidden_size=shape.hidden,
        intermediate_size=3 * shape.hidden,
        num_attention_heads=shape.hidden // shape.head,
        num_key_value_heads=shape.hidden // shape.head // 2,
        head_dim=shape.head,
        **vocabulary,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config = GenerationConfig.from_pretrained(tiny_model())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model()).save_pretrained(folder)
    if shape.vocabulary:
        fill_vocabulary(folder / "tokenizer.json", shape.vocabulary)
    return folder


def fill_vocabulary(tokenizer: Path, size: int) -> None:
    """Add words of the task's letters: whatever a fresh model samples has letters in place, thus a reward."""
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    words = ("".join(letters) for length in range(2, 6) for letters in product("abcdefgh", repeat=length))
    for word in islice(words, size - len(vocabulary)):
        vocabulary[word] = len(vocabulary)
    tokenizer.write_text(json.dumps(content), encoding="utf-8")


async def ours(model: Path, shape: Shape, folder: Path, *, lora: int = 0) -> float:
    """Seconds a step. lora: the rank; 0 trains every weight."""
    environment = installed()
    mode = {"mode": "lora", "rank": lora} if lora else {"mode": "full"}

    async def ready(*_: object, **__: object) -> Path:
        return environment

    async with FakeHub(lease_seconds=30) as hub:
        runs = Trainings(hub, folder, model, settings={"heartbeat_seconds": 10})
        with mock.patch("workers.training.coordinator.sources.ensure_environment", ready):
            finish = await runs.finish(
                max_steps=shape.steps,
                batch_size=shape.batch,
                rollouts_per_example=8,
                learning_rate=1e-3,
                sampling={"max_tokens": shape.letters + 1},
                env=[{"id": "alice/reverse-text", "args": {"length": shape.letters}}],
                trainer={"engine": "torch", "max_off_policy": 1, **mode},
                **({"lora_alpha": 2 * lora} if lora else {}),
            )
        if finish.state != "succeeded":
            raise SystemExit(hub.runs["r0"].log[-3000:])
        at = [step.at for step in runs.steps()]
    first, last = at[WARM_UP - 1], at[-1]
    assert first is not None
    assert last is not None
    return (last - first).total_seconds() / (len(at) - WARM_UP)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="baseline")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--lora", type=int, default=0, help="train adapters of this rank; default: every weight")
    parser.add_argument("--trl", type=Path, help="interpreter of an environment with TRL 1.16")
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    pairs = []
    with tempfile.TemporaryDirectory(prefix="bench-step-") as folder:
        trl = options.trl or make_trl(Path(folder) / "trl")
        model = fresh_model(shape, Path(folder) / "model")
        arguments = (
            "--steps",
            str(shape.steps),
            "--letters",
            str(shape.letters),
            "--batch",
            str(shape.batch),
            "--threads",
            str(THREADS),
            "--lora",
            str(options.lora),
        )
        for pair in range(options.pairs):
            data = Path(folder) / f"run-{pair}"
            data.mkdir()
            mine = asyncio.run(ours(model, shape, data, lora=options.lora))
            theirs = measure(trl, "train_trl_step", str(model), *arguments, threads=THREADS)["seconds"]
            print(f"ours {mine:.3f} s a step, TRL {theirs:.3f} s", flush=True)
            pairs.append(theirs / mine)
    times = statistics.median(pairs)
    print(
        f"{options.shape}: {times:.2f} times TRL's speed (at least {LEAST}); {'within' if times >= LEAST else 'MISSED'}"
    )
    return 0 if times >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
