from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.training.packing.drawing import Target, expected, steps, targets
from workers.training.packing.plan import PackingOptions, pack_step
from workers.training.samples.sample import Sample

OPTIONS = st.builds(
    PackingOptions,
    budget=st.integers(1, 40),
    ranks=st.integers(1, 4),
    share_prefixes=st.booleans(),
    min_shared=st.integers(1, 6),
    oversized=st.just("own"),
)


def packed_targets(samples: tuple[Sample, ...], options: PackingOptions) -> Counter[Target]:
    found: Counter[Target] = Counter()
    for rank in pack_step(samples, options):
        for batch in rank:
            found += targets(batch)
    return found


@given(steps(), OPTIONS)
def test_every_trained_token_is_one_target_behind_its_own_context(
    samples: tuple[Sample, ...], options: PackingOptions
) -> None:
    assert packed_targets(samples, options) == expected(samples)


@given(steps(), OPTIONS, st.integers(0, 2**16))
def test_the_order_of_the_samples_does_not_matter(
    samples: tuple[Sample, ...], options: PackingOptions, seed: int
) -> None:
    shuffled = tuple(random.Random(seed).sample(samples, len(samples)))
    place = {id(sample): number for number, sample in enumerate(samples)}
    renamed = Counter(
        {(place[id(shuffled[key[0]])], *key[1:]): count for key, count in packed_targets(shuffled, options).items()}
    )
    assert renamed == packed_targets(samples, options)


@given(steps(), OPTIONS)
def test_no_micro_batch_is_over_the_budget_but_for_one_sample_that_is(
    samples: tuple[Sample, ...], options: PackingOptions
) -> None:
    for rank in pack_step(samples, options):
        for batch in rank:
            assert batch.tokens <= options.budget or len(batch.sample) == 1


@given(steps(), OPTIONS)
def test_ranks_have_equally_many_micro_batches_and_the_plan_is_repeatable(
    samples: tuple[Sample, ...], options: PackingOptions
) -> None:
    packed = pack_step(samples, options)
    assert len(packed) == options.ranks
    assert len({len(rank) for rank in packed}) == 1
    again = pack_step(samples, options)
    assert [[batch.ids.tolist() for batch in rank] for rank in packed] == [
        [batch.ids.tolist() for batch in rank] for rank in again
    ]


@given(steps(), OPTIONS)
def test_segments_partition_the_tokens_and_ancestors_come_first(
    samples: tuple[Sample, ...], options: PackingOptions
) -> None:
    for rank in pack_step(samples, options):
        for batch in rank:
            assert batch.bounds[0] == 0
            assert batch.bounds[-1] == batch.tokens == len(batch.positions)
            assert all(start < end for start, end in map(batch.span, range(len(batch.paths))))
            for segment, path in enumerate(batch.paths):
                assert all(ancestor < segment for ancestor in path)
                assert not path or batch.paths[path[-1]] == path[:-1]
