"""A whole training step (sampling, environment in its box, reward, learning) against TRL 1.16's on the same work.

    python -m tests.bench.bench_train_step [--pairs 3] [--steps 22] [--letters 31] [--layers 4] [--hidden 128]
        [--lora RANK] [--trl PYTHON]
A fresh Qwen3 (hidden 128, 4 layers) learns reverse-text, every weight, 64 rollouts of at most 32 tokens a step, in
groups of 8: the shape of the study's TRL baseline; the options give others. Ours is the run that a worker does: hub
(a fake one), coordinator, torch engine, learner, verifiers in a bubblewrap box, every model call over HTTP. TRL's has
no environment: its reward is a function in its own process. Both have the whole machine; seconds by the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from tests.bench.bench_train import make_trl, measure
from tests.fakes.hub import FakeHub
from tests.workers.training.runs.trainings import Trainings, installed, tiny_model

WARM_UP = 2  # steps that are not counted
BATCH = 64
HEAD = 32  # features of an attention head
LEAST = 1.5
THREADS = os.cpu_count() or 1


def fresh_model(layers: int, hidden: int, folder: Path) -> Path:
    """hub/tiny's architecture and tokenizer in the baseline's shape and with fresh weights."""
    shape = {
        "num_hidden_layers": layers,
        "layer_types": ["full_attention"] * layers,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_attention_heads": hidden // HEAD,
        "num_key_value_heads": hidden // HEAD // 2,
        "head_dim": HEAD,
    }
    config = AutoConfig.from_pretrained(tiny_model(), **shape)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config = GenerationConfig.from_pretrained(tiny_model())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model()).save_pretrained(folder)
    return folder


async def ours(model: Path, steps: int, letters: int, folder: Path, *, lora: int = 0) -> float:
    """Seconds a step. lora: the rank; 0 trains every weight."""
    environment = installed()
    mode = {"mode": "lora", "rank": lora} if lora else {"mode": "full"}

    async def ready(*_: object, **__: object) -> Path:
        return environment

    async with FakeHub(lease_seconds=30) as hub:
        runs = Trainings(hub, folder, model, settings={"heartbeat_seconds": 10})
        with mock.patch("workers.training.coordinator.sources.ensure_environment", ready):
            finish = await runs.finish(
                max_steps=steps,
                batch_size=BATCH,
                rollouts_per_example=8,
                learning_rate=1e-3,
                sampling={"max_tokens": letters + 1},
                env=[{"id": "alice/reverse-text", "args": {"length": letters}}],
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
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=22)
    parser.add_argument("--letters", type=int, default=31)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lora", type=int, default=0, help="train adapters of this rank; default: every weight")
    parser.add_argument("--trl", type=Path, help="interpreter of an environment with TRL 1.16")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory(prefix="bench-step-") as folder:
        trl = options.trl or make_trl(Path(folder) / "trl")
        model = fresh_model(options.layers, options.hidden, Path(folder) / "model")
        arguments = (
            "--steps",
            str(options.steps),
            "--letters",
            str(options.letters),
            "--batch",
            str(BATCH),
            "--threads",
            str(THREADS),
            "--lora",
            str(options.lora),
        )
        for pair in range(options.pairs):
            data = Path(folder) / f"run-{pair}"
            data.mkdir()
            mine = asyncio.run(ours(model, options.steps, options.letters, data, lora=options.lora))
            theirs = measure(trl, "train_trl_step", str(model), *arguments, threads=THREADS)["seconds"]
            print(f"ours {mine:.3f} s a step, TRL {theirs:.3f} s", flush=True)
            pairs.append(theirs / mine)
    times = statistics.median(pairs)
    print(f"{times:.2f} times TRL's speed (at least {LEAST}); {'within' if times >= LEAST else 'MISSED'}")
    return 0 if times >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
