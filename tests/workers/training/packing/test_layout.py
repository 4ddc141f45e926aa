from __future__ import annotations

import numpy as np

from tests.factories.training import build_sample
from workers.training.packing.layout import empty, lay_out

PROMPT = [7, 8, 9]
GROUP = (
    build_sample([*PROMPT, 1, 2], [3, 4], index=0, weight=0.5),
    build_sample([*PROMPT, 3, 4, 5], [3, 4, 5], index=1),
)


def test_samples_lie_end_to_end_without_their_last_trained_token() -> None:
    batch = lay_out(GROUP, [0, 1])
    assert batch.ids.tolist() == [7, 8, 9, 1, 7, 8, 9, 3, 4]
    assert batch.positions.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert batch.bounds == (0, 4, 9)
    assert batch.paths == ((), ())
    assert (batch.shared, batch.key_index, batch.key_bounds) == (False, None, (0, 4, 9))
    assert (batch.max_query, batch.max_key) == (5, 5)


def test_targets_are_the_trained_tokens_and_nothing_else() -> None:
    batch = lay_out(GROUP, [0, 1])
    assert batch.index.tolist() == [2, 3, 6, 7, 8]
    assert batch.labels.tolist() == [1, 2, 3, 4, 5]
    assert batch.token.tolist() == [3, 4, 3, 4, 5]
    assert batch.sequence.tolist() == [0, 0, 1, 1, 1]
    assert batch.sample.tolist() == [0, 1]
    assert batch.weights.tolist() == [0.5, 0.5, 1, 1, 1]
    assert np.array_equal(batch.logprobs, np.float32([-0.001, -0.002, -0.003, -0.004, -0.005]))


def test_a_shared_prompt_is_laid_out_once_and_predicts_for_all() -> None:
    batch = lay_out(GROUP, [0, 1], min_shared=3)
    assert batch.ids.tolist() == [7, 8, 9, 1, 3, 4]
    assert batch.positions.tolist() == [0, 1, 2, 3, 3, 4]
    assert batch.bounds == (0, 3, 4, 6)
    assert batch.paths == ((), (0,), (0,))
    assert batch.index.tolist() == [2, 3, 2, 4, 5]  # token 9 predicts 1 for one and 3 for the other
    assert batch.labels.tolist() == [1, 2, 3, 4, 5]


def test_keys_of_a_segment_are_its_root_path() -> None:
    batch = lay_out(GROUP, [0, 1], min_shared=3)
    assert batch.keys(2) == ((0, 3), (4, 6))
    assert batch.key_bounds == (0, 3, 7, 12)
    assert batch.key_index is not None
    assert batch.key_index.tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 4, 5]
    assert (batch.max_query, batch.max_key) == (3, 5)


def test_a_prefix_that_is_too_short_is_not_shared() -> None:
    assert not lay_out(GROUP, [0, 1], min_shared=4).shared


def test_the_tree_goes_on_below_the_branch_that_agrees_longest() -> None:
    tails = ([1, 2, 3, 4], [5, 6], [1, 2, 9, 4])
    samples = [build_sample([*PROMPT, *tail], [len(PROMPT) + len(tail) - 1]) for tail in tails]
    batch = lay_out(samples, [0, 1, 2], min_shared=1)
    assert batch.ids.tolist() == [7, 8, 9, 5, 1, 2, 3, 9]
    assert batch.paths == ((), (0,), (0,), (0, 2), (0, 2))


def test_completions_that_begin_alike_are_not_cut_for_a_few_tokens() -> None:
    tails = ([1, 2, 3, 4, 5], [1, 2, 6, 7, 8], [1, 2, 6, 9, 8])
    samples = [build_sample([*PROMPT, *tail], [len(PROMPT) + len(tail) - 1]) for tail in tails]
    assert lay_out(samples, [0, 1, 2], min_shared=3).paths == ((), (0,), (0,), (0,))


def test_siblings_of_one_length_are_neighbours() -> None:
    tails = ([1, 2, 3], [4, 5, 6, 7], [8, 2, 3], [9, 5, 6, 7])
    samples = [build_sample([*PROMPT, *tail], [len(PROMPT) + len(tail) - 1]) for tail in tails]
    assert lay_out(samples, [0, 1, 2, 3], min_shared=3).bounds == (0, 3, 5, 7, 10, 13)


def test_equal_samples_share_everything_but_their_targets() -> None:
    batch = lay_out((GROUP[0], GROUP[0]), [0, 1], min_shared=1)
    assert batch.ids.tolist() == [7, 8, 9, 1]
    assert batch.index.tolist() == [2, 3, 2, 3]


def test_a_branch_shares_what_the_first_one_sampled() -> None:
    branches = build_sample([1, 2, 3, 4], [1, 3]), build_sample([1, 2, 5, 6], [3], branch=1)
    batch = lay_out(branches, [0, 1], min_shared=1)
    assert batch.ids.tolist() == [1, 2, 3, 5]
    assert list(zip(batch.index.tolist(), batch.labels.tolist(), strict=True)) == [(0, 2), (2, 4), (3, 6)]


def test_samples_that_train_nothing_take_no_room() -> None:
    batch = lay_out((build_sample([1, 2], []), GROUP[0]), [0, 1])
    assert batch.sample.tolist() == [1]
    assert batch.tokens == 4


def test_a_rank_without_work_has_a_token_and_no_targets() -> None:
    for batch in (empty(), lay_out(GROUP, []), lay_out((build_sample([1, 2], []),), [0], min_shared=1)):
        assert (batch.tokens, batch.targets, batch.bounds, batch.paths) == (1, 0, (0, 1), ((),))


def test_arrays_can_be_handed_to_torch_without_a_copy() -> None:
    batch = lay_out(GROUP, [0, 1], min_shared=3)
    arrays = [value for value in vars(batch).values() if isinstance(value, np.ndarray)]
    assert len(arrays) == 11
    assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays)
