"""The statistics, with numbers worked by hand."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence

import pytest
from envhub.protocol.evals.evaluations import EvaluationSummary, IndexRow
from envhub.protocol.evals.rollouts import Outcome, Usage
from envhub.protocol.runs import FailureKind
from hypothesis import given
from hypothesis import strategies as st

from hub.evals.statistics import Aggregate, ExampleTally, chance_of_all_failing


def _row(example: int, rollout: int, reward: float | None, **changes: object) -> IndexRow:
    return IndexRow.model_validate(
        {"example": example, "rollout": rollout, "example_hash": "x", "outcome": Outcome.OK, "reward": reward} | changes
    )


def _failed(example: int, rollout: int, kind: FailureKind) -> IndexRow:
    return _row(example, rollout, None, outcome=Outcome.FAILED, failure_kind=kind)


def _summary(rows: Sequence[IndexRow], k: int = 3, *, partial: bool = False) -> EvaluationSummary:
    aggregate, tallies = Aggregate(), defaultdict[int, ExampleTally](ExampleTally)
    for row in rows:
        aggregate.add(tallies[row.example], row)
        aggregate = Aggregate.model_validate_json(aggregate.model_dump_json())  # as it is stored between segments
    return aggregate.summary(planned=len(rows), rollouts_per_example=k, partial=partial)


def _rewards(*clusters: Sequence[float]) -> list[IndexRow]:
    return [_row(g, i, reward) for g, rewards in enumerate(clusters) for i, reward in enumerate(rewards)]


def test_equal_clusters_give_the_standard_error_of_the_example_means() -> None:
    # means 1, 0, 0.5: mean 0.5, sample variance 0.25, se = sqrt(0.25 / 3)
    reward = _summary(_rewards([1, 1], [0, 0], [1, 0])).reward
    assert reward is not None
    assert reward.mean == pytest.approx(0.5)
    assert reward.std_error == pytest.approx(math.sqrt(0.25 / 3))


def test_unequal_clusters_are_weighted_by_their_rollouts() -> None:
    # S = 3, 0; n = 3, 1; mean 0.75; residuals 3 - 2.25 = 0.75 and -0.75; se^2 = 2/1 * 1.125 / 16
    reward = _summary(_rewards([1, 1, 1], [0])).reward
    assert reward is not None
    assert (reward.mean, reward.count) == (pytest.approx(0.75), 4)
    assert reward.std_error == pytest.approx(math.sqrt(2 * 1.125 / 16))


def test_one_example_has_no_standard_error() -> None:
    reward = _summary(_rewards([1, 0, 1])).reward
    assert reward is not None
    assert reward.std_error is None


def test_rollouts_of_one_example_do_not_pretend_to_be_independent() -> None:
    once = _summary(_rewards([1], [0], [1], [0])).reward
    eight_times = _summary(_rewards([1] * 8, [0] * 8, [1] * 8, [0] * 8)).reward
    assert once is not None
    assert eight_times is not None
    assert eight_times.std_error == pytest.approx(once.std_error)


def test_large_rewards_that_differ_little_keep_their_spread() -> None:
    # means 1e9 + (0, 1, 2): sample variance 1, se = sqrt(1 / 3); a naive sum of squares would lose it
    reward = _summary(_rewards([1e9], [1e9 + 1], [1e9 + 2])).reward
    assert reward is not None
    assert reward.std_error == pytest.approx(math.sqrt(1 / 3), rel=1e-9)


def test_equal_rewards_have_no_error_at_all() -> None:
    reward = _summary(_rewards([0.1, 0.1], [0.1, 0.1], [0.1, 0.1])).reward
    assert reward is not None
    assert (reward.mean, reward.std_error) == (pytest.approx(0.1), 0.0)


def test_pass_at_k_is_the_unbiased_estimate() -> None:
    # n = 4, c = 1: 1 - C(3,k)/C(4,k) = 1/4, 1/2, 3/4, 1
    summary = _summary(_rewards([1, 0, 0, 0]), k=4)
    assert [item.value for item in summary.pass_at_k] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_pass_at_k_has_the_standard_error_over_examples() -> None:
    # pass@1 of the examples: 1, 0.5, 0 -> sample variance 0.25 over 3 examples
    (first, _) = _summary(_rewards([1, 1], [1, 0], [0, 0]), k=2).pass_at_k
    assert (first.value, first.std_error) == (pytest.approx(0.5), pytest.approx(math.sqrt(0.25 / 3)))


def test_an_example_with_fewer_rollouts_counts_up_to_its_own_k() -> None:
    # pass@1: (1/2 + 1) / 2; pass@2 from the first example alone
    summary = _summary(_rewards([1, 0], [1]), k=3)
    assert [(item.k, item.value) for item in summary.pass_at_k] == [(1, pytest.approx(0.75)), (2, pytest.approx(1.0))]


def test_while_it_runs_only_examples_with_all_their_rollouts_count() -> None:
    rows = _rewards([1, 0], [1], [1])
    assert [item.examples for item in _summary(rows, k=2).pass_at_k] == [3, 1]
    assert [(item.value, item.examples) for item in _summary(rows, k=2, partial=True).pass_at_k] == [(0.5, 1), (1.0, 1)]
    assert _summary(_rewards([1], [1]), k=2, partial=True).pass_at_k == ()


def test_examples_that_all_agree_are_no_certainty() -> None:
    # p^20 = 0.05 at p = 0.861: twenty solved examples in a row are still likely enough for that
    (solved,) = _summary(_rewards(*[[1]] * 20), k=1).pass_at_k
    (unsolved,) = _summary(_rewards(*[[0]] * 20), k=1).pass_at_k
    assert (solved.value, solved.bound) == (1.0, pytest.approx(1 - 0.8609, abs=1e-4))
    assert (unsolved.value, unsolved.bound) == (0.0, solved.bound)
    assert _summary(_rewards([1], [0]), k=1).pass_at_k[0].bound is None
    assert _summary(_rewards([1]), k=1).pass_at_k[0].bound is None


@pytest.mark.parametrize(
    ("rewards", "limit"),
    [
        ([[1.0, 1.0]] * 20, 0.8609),
        ([[0.0]] * 20, 1 - 0.8609),
        ([[1.0, 1.0]], None),  # one example says nothing about the next one
        ([[0.5]] * 20, None),  # no end of [0, 1]
        ([[0.0, 2.0]] * 20, None),  # every example has a mean of 1, but not every reward is 1
        ([[1.0]] * 19 + [[0.0]], None),
    ],
)
def test_a_mean_of_rewards_that_are_all_0_or_all_1_has_a_bound(rewards: list[list[float]], limit: float | None) -> None:
    reward = _summary(_rewards(*rewards), k=1).reward
    assert reward is not None
    assert reward.limit == (None if limit is None else pytest.approx(limit, abs=1e-4))


def test_a_reward_of_one_half_counts_as_solved_as_in_verifiers() -> None:
    assert _summary(_rewards([0.5]), k=1).pass_at_k[0].value == 1.0
    assert _summary(_rewards([0.49]), k=1).pass_at_k[0].value == 0.0


@pytest.mark.parametrize(("n", "c"), [(5, 0), (5, 5), (10, 3), (1024, 1)])
def test_the_product_agrees_with_the_binomials(n: int, c: int) -> None:
    exact = [math.comb(n - c, k) / math.comb(n, k) for k in range(1, n + 1)]
    assert chance_of_all_failing(n, c, n) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_failure_is_coverage_and_never_a_reward(kind: FailureKind) -> None:
    summary = _summary([*_rewards([1, 1]), _failed(0, 2, kind), _failed(1, 0, kind)])
    assert summary.reward is not None
    assert (summary.reward.mean, summary.scored, summary.stored) == (1.0, 2, 4)
    assert summary.outcomes == {"ok": 2, kind.value: 2}


def test_a_replaced_failure_leaves_no_trace() -> None:
    failed = _failed(0, 0, FailureKind.INFRASTRUCTURE).model_copy(update={"usage": Usage(prompt_tokens=9)})
    aggregate, tally = Aggregate(), ExampleTally()
    aggregate.add(tally, failed)
    aggregate.forget_failed(failed.failure_kind, failed.usage, failed.judge_usage)
    aggregate.add(tally, _row(0, 0, 1.0))
    assert aggregate.summary(planned=1, rollouts_per_example=1) == _summary([_row(0, 0, 1.0)], k=1)


def test_a_metric_that_some_rollouts_lack_is_averaged_over_the_others() -> None:
    rows = [_row(0, 0, 1, metrics={"a": 2.0, "b": 1.0}), _row(1, 0, 0, metrics={"a": 4.0}), _row(2, 0, 0)]
    metrics = {item.name: item for item in _summary(rows).metrics}
    assert (metrics["a"].mean, metrics["a"].std_error, metrics["a"].count) == (3.0, pytest.approx(1.0), 2)
    assert (metrics["b"].mean, metrics["b"].std_error) == (1.0, None)


def test_a_package_that_invents_metric_names_cannot_grow_the_summary_for_ever() -> None:
    assert len(_summary([_row(0, i, 1, metrics={f"m{i}": 1.0}) for i in range(150)]).metrics) == 100


def test_judge_tokens_are_counted_apart() -> None:
    usage, judge = Usage(prompt_tokens=3, completion_tokens=2), Usage(prompt_tokens=7)
    summary = _summary([_row(0, i, 1, usage=usage, judge_usage=judge) for i in range(2)])
    assert summary.usage == Usage(prompt_tokens=6, completion_tokens=4)
    assert summary.judge_usage == Usage(prompt_tokens=14)


def test_the_histogram_of_unit_rewards_has_twenty_bins_over_the_unit_interval() -> None:
    summary = _summary(_rewards([0, 0.1, 0.1, 0.5, 0.999, 1.0]))
    assert (summary.histogram_min, summary.histogram_max) == (0.0, 1.0)
    assert {i: n for i, n in enumerate(summary.histogram) if n} == {0: 1, 2: 2, 10: 1, 19: 2}


def test_the_histogram_grows_with_the_range_and_loses_nothing() -> None:
    summary = _summary(_rewards([-5.0, 0.0, 1e6, 1e30]))
    assert sum(summary.histogram) == 4
    assert summary.histogram_min <= -5.0 < summary.histogram_max


def test_an_empty_evaluation_has_no_reward() -> None:
    summary = _summary([])
    assert (summary.reward, summary.pass_at_k, summary.stored) == (None, (), 0)


LARGEST = 1e3
CANCELLED = 1e-7 * LARGEST  # what rounding leaves of a standard error that is 0: the root of the double's precision
_ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(st.none(), st.floats(-LARGEST, LARGEST)),
        st.dictionaries(st.sampled_from("ab"), st.floats(-10, 10)),
    ),
    max_size=40,
)


@given(_ROWS, st.randoms(use_true_random=False))
def test_the_order_and_size_of_segments_do_not_matter(
    values: list[tuple[int, float | None, dict[str, float]]], shuffler: random.Random
) -> None:
    rows = [
        _row(example, i, reward, metrics=metrics)
        if reward is not None
        else _failed(example, i, FailureKind.INFRASTRUCTURE)
        for i, (example, reward, metrics) in enumerate(values)
    ]
    shuffled = shuffler.sample(rows, len(rows))
    first, second = _summary(rows), _summary(shuffled)
    assert first.outcomes == second.outcomes
    assert (first.histogram, first.histogram_min) == (second.histogram, second.histogram_min)
    assert [p.value for p in first.pass_at_k] == pytest.approx([p.value for p in second.pass_at_k])
    _check_against_definition(first, rows)


def _check_against_definition(summary: EvaluationSummary, rows: Sequence[IndexRow]) -> None:
    clusters = defaultdict[int, list[float]](list)
    for row in rows:
        if row.reward is not None:
            clusters[row.example].append(row.reward)
    if not clusters:
        assert summary.reward is None
        return
    assert summary.reward is not None
    n = sum(map(len, clusters.values()))
    mean = math.fsum(map(math.fsum, clusters.values())) / n
    assert summary.reward.mean == pytest.approx(mean, rel=1e-9, abs=1e-9)
    if len(clusters) > 1:
        residuals = math.fsum((math.fsum(c) - len(c) * mean) ** 2 for c in clusters.values())
        expected = math.sqrt(len(clusters) / (len(clusters) - 1) * residuals) / n
        assert summary.reward.std_error == pytest.approx(expected, rel=1e-6, abs=CANCELLED)
