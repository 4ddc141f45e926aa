from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories.training import build_sample
from tests.workers.training.journal.conftest import Compare, Make
from workers.training.journal.batch import StepBatch
from workers.training.journal.encoding import decode, encode


def test_a_batch_comes_back_bit_for_bit(batch_of: Make, assert_same: Compare) -> None:
    assert_same(decode(encode(batch_of(1))), batch_of(1))


def test_an_empty_batch_comes_back(assert_same: Compare) -> None:
    empty = StepBatch(1, (), 0.0)
    assert_same(decode(encode(empty)), empty)


def test_the_same_content_gives_the_same_bytes(batch_of: Make) -> None:
    turned = StepBatch(1, batch_of(1).samples, 3.0, {"rewards": {"a": [None, "ü"], "b": 0.1}})
    assert encode(turned) == encode(batch_of(1))
    assert len({encode(batch_of(1)) for _ in range(20)}) == 1  # safetensors shuffles metadata of several keys


def test_a_meta_that_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(StepBatch(1, (), 0.0, {"reward": float("nan")}))


@pytest.mark.parametrize("content", [b"", b"\x08\x00\x00\x00\x00\x00\x00\x00{}", b"not a file of safetensors"])
def test_other_files_are_not_taken_for_batches(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a batch"):
        decode(content)


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=5))
def test_samples_of_any_lengths_come_back(tokens: list[list[int]]) -> None:
    batch = StepBatch(1, tuple(build_sample(one, range(1, len(one))) for one in tokens), 1.0)
    assert [sample.ids.tolist() for sample in decode(encode(batch)).samples] == tokens
