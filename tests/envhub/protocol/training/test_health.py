from __future__ import annotations

from envhub.protocol.training.health import health
from envhub.protocol.training.metrics import EnvironmentStep, StepMetrics
from envhub.protocol.training.runs import HealthBadge


def badge(name: str, *steps: StepMetrics) -> HealthBadge:
    return next(item for item in health(steps) if item.name == name)


def test_before_the_first_step_there_is_nothing_to_say() -> None:
    assert health([]) == ()


def test_a_healthy_run_needs_no_advice() -> None:
    assert {(item.level, item.advice) for item in health([StepMetrics(step=1, kl=0.001, rollouts=8)])} == {("ok", "")}


def test_zero_signal_advice_depends_on_whether_examples_are_too_hard_or_too_easy() -> None:
    hard = badge("zero signal", StepMetrics(step=1, zero_signal_share=0.9, reward_mean=0.02))
    easy = badge("zero signal", StepMetrics(step=1, zero_signal_share=0.6, reward_mean=0.98))
    assert (hard.level, easy.level) == ("bad", "warn")
    assert "too hard" in hard.advice
    assert "too easy" in easy.advice


def test_prefix_breaks_are_counted_against_all_rollouts_of_the_step() -> None:
    environments = {"a": EnvironmentStep(rollouts=80), "b": EnvironmentStep(rollouts=20)}
    step = StepMetrics(step=1, rollouts=64, prefix_breaks=10, environments=environments)
    assert badge("prefix breaks", step).value == 0.1


def test_a_badge_speaks_of_the_newest_steps_only() -> None:
    early = [StepMetrics(step=step, truncated_share=1.0) for step in range(1, 11)]
    late = [StepMetrics(step=step, truncated_share=0.0) for step in range(11, 21)]
    assert badge("truncation", *early, *late).level == "ok"


def test_what_was_not_measured_has_no_badge() -> None:
    assert "KL gap" not in {item.name for item in health([StepMetrics(step=1)])}
