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
    batch.keep([0, 2])
    rows = [rows[0], rows[2]]
    batch.advance([42, 43])
    rows = [[*rows[0], 42], [*rows[1], 43]]
    check(model, batch, rows)


def test_padding_that_nobody_needs_is_dropped(model: Any) -> None:
    batch = batch_module.RunningBatch(model)
    batch.join([[5, 6], list(range(10, 60))])
    batch.keep([0])
    assert batch.mask.shape == (1, 2)


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
