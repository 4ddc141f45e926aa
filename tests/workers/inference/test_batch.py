"""The running batch gives each row the logits that the model gives it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
batch_module = pytest.importorskip("workers.inference.torch_engine.batch")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()


def alone(model: Any, ids: list[int]) -> Any:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0, -1]


def check(model: Any, batch: Any, rows: list[list[int]]) -> None:
    for row, ids in enumerate(rows):
        torch.testing.assert_close(batch.logits[row], alone(model, ids), atol=1e-4, rtol=1e-4)


def test_rows_that_join_advance_and_leave_keep_their_logits(model: Any) -> None:
    rows = [[5, 9, 20], [30, 31, 32, 33, 34, 35, 36]]
    batch = batch_module.RunningBatch(model)
    batch.join(rows)
    check(model, batch, rows)
    batch.advance([40, 41])
    rows = [[*rows[0], 40], [*rows[1], 41]]
    check(model, batch, rows)
    batch.join([[50, 51]])
    rows.append([50, 51])
    check(model, batch, rows)
    assert batch.keep([0, 2]) == [0, 2]
    rows = [rows[0], rows[2]]
    batch.advance([42, 43])
    rows = [[*rows[0], 42], [*rows[1], 43]]
    check(model, batch, rows)


def test_padding_that_nobody_needs_is_dropped(model: Any) -> None:
    batch = batch_module.RunningBatch(model)
    batch.join([[5, 6], list(range(10, 60))])
    batch.keep([0])
    assert batch.cache.get_seq_length() == 2
    batch.advance([7])
    check(model, batch, [[5, 6, 7]])


@pytest.mark.parametrize("own_attention", [True, False])
def test_the_last_rows_take_the_places_of_those_that_leave(model: Any, own_attention: bool) -> None:
    rows = {name: [10 + name, 11, 12 + name][: 1 + name % 3] for name in range(7)}
    batch = batch_module.RunningBatch(model)
    if not own_attention:  # of a model whose attention is not plain dot products
        model.set_attn_implementation("eager")
        batch._own_attention = False
    batch.join(list(rows.values()))
    order = batch.keep([1, 3, 4, 6])
    assert sorted(order) == [1, 3, 4, 6]
    kept = [[*rows[name], 40 + name] for name in order]
    batch.advance([40 + name for name in order])
    check(model, batch, kept)
    batch.join([list(range(20, 90))])  # longer than all that is there: columns move
    kept.append(list(range(20, 90)))
    for token in range(40, 140):  # beyond the spare columns
        batch.advance([token % 60 + 5] * len(kept))
        kept = [[*row, token % 60 + 5] for row in kept]
    check(model, batch, kept)
    model.set_attn_implementation("sdpa")


def test_a_sliding_window_is_kept(tiny_model: Path) -> None:
    config = transformers.AutoConfig.from_pretrained(tiny_model)
    config.use_sliding_window, config.sliding_window = True, 4
    config.layer_types = ["sliding_attention", *config.layer_types[1:]]
    torch.manual_seed(0)
    sliding = transformers.AutoModelForCausalLM.from_config(config).eval()
    rows = [[5, 9], list(range(20, 30))]
    expected = []
    for row in rows:
        ids = [*row, *range(40, 48)]
        expected.append(alone(sliding, ids))
    batch = batch_module.RunningBatch(sliding)
    batch.join(rows)
    assert batch._own_attention
    for token in range(40, 48):
        batch.advance([token, token])
    for row, logits in enumerate(expected):
        torch.testing.assert_close(batch.logits[row], logits, atol=1e-4, rtol=1e-4)


def test_rows_of_the_same_prompt_are_prefilled_once_and_then_go_their_own_ways(model: Any) -> None:
    seen = []
    forward = model.forward
    batch = batch_module.RunningBatch(model)
    model.forward = lambda **inputs: seen.append(inputs["input_ids"].shape[0]) or forward(**inputs)
    try:
        batch.join([[5, 9, 20], [7, 8], [5, 9, 20]])
    finally:
        del model.forward
    assert seen == [2]
    check(model, batch, [[5, 9, 20], [7, 8], [5, 9, 20]])
    batch.advance([40, 41, 42])
    check(model, batch, [[5, 9, 20, 40], [7, 8, 41], [5, 9, 20, 42]])
