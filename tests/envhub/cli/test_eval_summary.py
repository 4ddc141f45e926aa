"""An evaluation's figures in the terminal."""

from __future__ import annotations

import pytest
from envhub.cli.evaluations.summary import pass_at_k, score
from envhub.protocol.evals.evaluations import EvaluationSummary, MetricSummary, PassAtK


@pytest.mark.parametrize(("most", "shown"), [(3, [1, 2, 3]), (4, [1, 2, 4]), (40, [1, 2, 4, 8, 16, 32, 40])])
def test_of_many_rollouts_not_every_k_is_shown(most: int, shown: list[int]) -> None:
    estimates = tuple(PassAtK(k=k, value=0.5, std_error=None) for k in range(1, most + 1))
    summary = EvaluationSummary.model_construct(pass_at_k=estimates)  # type: ignore[call-arg]
    assert pass_at_k(summary) == "  ".join(f"{k}: 0.5" for k in shown)


@pytest.mark.parametrize(
    ("mean", "error", "bound", "shown"),
    [
        (1.0, 0.0, 0.139, "1.000 (>= 0.861)"),
        (0.0, 0.0, 0.139, "0.000 (<= 0.139)"),
        (0.5, 0.0, None, "0.500 (all alike)"),
    ],
)
def test_rewards_that_all_agree_have_a_bound_or_are_all_alike(
    mean: float, error: float, bound: float | None, shown: str
) -> None:
    reward = MetricSummary(name="reward", mean=mean, std_error=error, count=20, bound=bound)
    assert score(EvaluationSummary.model_construct(reward=reward)) == shown  # type: ignore[call-arg]


def test_a_score_has_as_many_digits_as_on_its_page() -> None:
    reward = MetricSummary(name="reward", mean=0.35, std_error=0.02, count=20)
    assert score(EvaluationSummary.model_construct(reward=reward)) == "0.350 ± 0.020"  # type: ignore[call-arg]
