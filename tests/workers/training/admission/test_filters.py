from __future__ import annotations

import math

import pytest

from tests.factories.training import build_candidate, build_group, build_sample
from workers.training.admission.filters import (
    GibberishFilter,
    RepetitionFilter,
    ZeroAdvantageFilter,
    filter_rollouts,
)
from workers.training.samples.arrays import floats
from workers.training.samples.sample import Sample


def sampled(*logprobs: float, tokens: list[int] | None = None) -> Sample:
    """A prompt token, then tokens sampled with these logprobs."""
    count = len(logprobs)
    return build_sample([0, *(tokens or [1] * count)], range(1, count + 1), logprobs=floats([0.0, *logprobs]))


@pytest.mark.parametrize(
    ("token", "logprob", "gibberish"),
    [(11, -5.0, True), (10, -5.0, False), (11, -4.2, False)],
)
def test_gibberish_is_a_rare_token_below_the_uniform_probability(token: int, logprob: float, gibberish: bool) -> None:
    limit = GibberishFilter(vocabulary=10, token_id_threshold=10)  # -ln(10) - 2 = -4.30
    assert limit.matches([sampled(-0.1, logprob, tokens=[1, token])]) is gibberish


def test_gibberish_in_the_prompt_does_not_count() -> None:
    assert not GibberishFilter(vocabulary=10, token_id_threshold=10).matches([build_sample([50, 1], [1])])


@pytest.mark.parametrize(
    ("probabilities", "repeats"),
    [([1, 1, 1], True), ([1, 1, 0.5, 1], False), ([0.5, 1, 1, 1], True), ([1, 1], False), ([0.99, 1, 1], False)],
)
def test_repetition_is_a_row_of_near_certain_tokens(probabilities: list[float], repeats: bool) -> None:
    sample = sampled(*(math.log(value) for value in probabilities))
    # 0.99 itself is not above the threshold; float32 of its logarithm lies below it
    assert RepetitionFilter(window=3).matches([sample]) is repeats


def test_a_row_goes_on_behind_context_but_not_into_another_branch() -> None:
    sure = floats([0.0] * 4)
    assert RepetitionFilter(window=2).matches([build_sample([0, 1, 2, 3], [1, 3], logprobs=sure)])
    assert not RepetitionFilter(window=2).matches([build_sample([0, 1], [1], logprobs=floats([0.0, 0.0]))] * 2)


def test_only_enforcing_filters_remove() -> None:
    candidate = build_candidate(build_group(1.0, 0.5, 0.0))
    watched = filter_rollouts(candidate, [ZeroAdvantageFilter(enforce=False)])
    assert (watched.flagged["zero_advantage"], watched.removed.total()) == (1, 0)
    enforced = filter_rollouts(candidate, [ZeroAdvantageFilter()])
    assert enforced.removed["zero_advantage"] == 1
    assert [len(samples) for samples in enforced.candidate.samples] == [1, 0, 1]


def test_the_first_filter_that_matches_counts() -> None:
    candidate = build_candidate(build_group(0.0, 0.0))
    filters = [RepetitionFilter(window=1, prob_threshold=0.5), ZeroAdvantageFilter()]
    result = filter_rollouts(candidate, filters)
    assert result.flagged == {"repetition": 2}
    assert result.candidate.trains
