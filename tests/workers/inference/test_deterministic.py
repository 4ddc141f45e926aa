"""The torch engine in its deterministic mode: the same bits whatever else is being decoded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

engine = pytest.importorskip("workers.inference.torch_engine.serving")
scheduler_module = pytest.importorskip("workers.inference.torch_engine.scheduler")
sampling = pytest.importorskip("workers.inference.torch_engine.sampling")
pytestmark = pytest.mark.torch


def decode(model: Path, prompts: list[list[int]]) -> list[list[tuple[int, float]]]:
    """Tokens and logprobs of each prompt, sampled together; the first one's seed is always the same."""
    loaded, _, eos_ids, context = engine.load(model)
    found: list[list[tuple[int, float]]] = [[] for _ in prompts]
    ended = threading.Semaphore(0)

    def emit_to(row: int):  # type: ignore[no-untyped-def]
        def emit(tokens: list[Any]) -> None:
            found[row].extend((token.id, token.logprob) for token in tokens)
            if tokens[-1].finish:
                ended.release()

        return emit

    with scheduler_module.Scheduler(
        loaded, eos_ids=eos_ids, max_batch=16, context=context, deterministic=True
    ) as scheduler:
        params = [sampling.SamplingParams(seed=row, max_tokens=20, ignore_eos=True) for row in range(len(prompts))]
        rows = [scheduler_module.Sequence(p, params[i], emit_to(i)) for i, p in enumerate(prompts)]
        scheduler.submit(rows)
        for _ in prompts:
            assert ended.acquire(timeout=60)
    return found


def test_a_request_gives_the_same_bits_alone_and_among_others(tiny_model: Path) -> None:
    prompt = [4, 60, 61, 62, 5]
    alone = decode(tiny_model, [prompt])[0]
    among = decode(tiny_model, [prompt, list(range(10, 80)), [9, 9, 9], *([[7, 8]] * 6)])[0]
    assert alone == among
