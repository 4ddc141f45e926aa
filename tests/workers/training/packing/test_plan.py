from __future__ import annotations

import pytest

from tests.factories.training import build_sample
from workers.training.packing.balance import Cost
from workers.training.packing.errors import OversizedSample
from workers.training.packing.plan import PackingOptions, pack_step
from workers.training.samples.sample import Sample


def sample_of(forwarded: int, **fields: int) -> Sample:
    """A sample that needs so many tokens, all but the first trained."""
    return build_sample([1] * (forwarded + 1), range(1, forwarded + 1), **fields)


def sizes(samples: list[Sample], **options: object) -> list[list[int]]:
    packed = pack_step(samples, PackingOptions(**options))  # type: ignore[arg-type]
    return [[batch.tokens for batch in rank] for rank in packed]


def test_first_fit_decreasing_fills_the_bins() -> None:
    assert sizes([sample_of(n) for n in (2, 5, 3, 7, 1, 2)], budget=10) == [[10, 10]]


def test_a_sample_over_the_budget_is_refused_by_name() -> None:
    with pytest.raises(OversizedSample, match="rollout 4/2 needs 11 tokens, over the micro-batch budget of 10"):
        sizes([sample_of(11, group=4, index=2)], budget=10)


def test_or_gets_a_micro_batch_of_its_own() -> None:
    assert sizes([sample_of(11), sample_of(1), sample_of(2)], budget=10, oversized="own") == [[11, 3]]


def test_every_rank_has_equally_many_micro_batches() -> None:
    packed = sizes([sample_of(10) for _ in range(3)], budget=10, ranks=2)
    assert sorted(packed) == [[10, 1], [10, 10]]


def test_a_bin_is_halved_before_a_rank_goes_without() -> None:
    assert sizes([sample_of(3), sample_of(3)], budget=10, ranks=2) == [[3], [3]]


def test_a_step_without_anything_to_train_gives_each_rank_an_empty_micro_batch() -> None:
    packed = pack_step([], PackingOptions(budget=10, ranks=3))
    assert [[batch.targets for batch in rank] for rank in packed] == [[0], [0], [0]]


def test_micro_batches_of_the_same_round_are_alike() -> None:
    packed = sizes([sample_of(n) for n in (10, 9, 5, 4)], budget=10, ranks=2)
    assert sorted(packed[0] + packed[1]) == [4, 5, 9, 10]
    assert {tuple(sorted(pair)) for pair in zip(*packed, strict=True)} == {(9, 10), (4, 5)}
    assert {sum(rank) for rank in packed} == {14}


def test_attention_makes_a_long_sample_dearer_than_short_ones_of_the_same_length() -> None:
    ((long,),) = pack_step([sample_of(8)], PackingOptions(budget=8))
    ((short,),) = pack_step([sample_of(4), sample_of(4)], PackingOptions(budget=8))
    cost = Cost(token=1.0, pair=0.5, target=0.25)
    assert cost.of(long) == 8 + 0.5 * 32 + 0.25 * 8
    assert cost.of(short) == 8 + 0.5 * 16 + 0.25 * 8


def test_a_shared_prefix_lets_a_whole_group_fit() -> None:
    prompt = list(range(100, 120))
    group = [build_sample([*prompt, n, n, n], [20, 21, 22], index=n) for n in range(4)]
    assert sizes(group, budget=30) == [[22, 22, 22, 22]]
    assert sizes(group, budget=30, share_prefixes=True) == [[28]]


def test_a_group_too_large_for_one_bin_repeats_its_prefix_in_each() -> None:
    prompt = list(range(100, 120))
    group = [build_sample([*prompt, n, n, n], [20, 21, 22], index=n) for n in range(4)]
    assert sizes(group, budget=24, share_prefixes=True) == [[24, 24]]


def test_sharing_is_costed_by_what_a_segment_attends_to() -> None:
    prompt = list(range(100, 120))
    group = [build_sample([*prompt, n, n, n], [20, 21, 22], index=n) for n in range(2)]
    ((batch,),) = pack_step(group, PackingOptions(budget=30, share_prefixes=True))
    assert Cost(token=0.0, pair=1.0, target=0.0).of(batch) == 20 * 10 + 2 * 2 * (20 + 1)
