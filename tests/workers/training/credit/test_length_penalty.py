from __future__ import annotations

import pytest

from tests.factories.training import build_rollout, build_turn
from workers.training.credit.group import CreditOptions, credit_group
from workers.training.credit.length_penalty import LengthPenalty


def test_each_term_is_a_share_of_the_groups_maximum_times_the_mean_reward() -> None:
    long = build_rollout(build_turn([1, 2], [3, 4, 5, 6]), build_turn([1, 2, 3, 4, 5, 6, 9, 9], [7]), reward=1.0)
    short = build_rollout(build_turn([1, 2], [3]), index=1, reward=1.0)
    wrong = build_rollout(build_turn([1, 2], [3]), index=2, reward=0.0)
    # sampled 5 and 1; context 4 and 2; turns 2 and 1; mean reward 2/3
    dear = 2 / 3 * (0.25 + 0.1 + 0.1)
    cheap = 2 / 3 * (0.25 / 5 + 0.1 / 2 + 0.1 / 2)
    shaped = [1 - dear, 1 - cheap, 0 - cheap]
    credits = credit_group((long, short, wrong), CreditOptions(length_penalty=LengthPenalty()))
    assert [credit[0] for credit in credits if credit is not None] == pytest.approx(
        [value - sum(shaped) / 3 for value in shaped]
    )


def test_a_group_that_never_succeeds_pays_nothing() -> None:
    group = (build_rollout(build_turn([1], [2, 3, 4])), build_rollout(index=1))
    first, _ = credit_group(group, CreditOptions(length_penalty=LengthPenalty()))
    assert first is not None
    assert first.tolist() == [0.0]
