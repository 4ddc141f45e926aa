"""A training step's rollouts with a high reward and an odd shape."""

from __future__ import annotations

from django.test import Client

from hub.training.models import Step, TrainingRollout
from hub.training.odd_rollouts import odd_rollouts
from tests.factories.training_showcase import TrainingShowcase


def test_they_are_named_with_their_reason_and_only_among_their_own_environment(
    ada: Client, showcase: TrainingShowcase
) -> None:
    step = Step.objects.get(training=showcase.running, step=showcase.running.step)
    rows = TrainingRollout.objects.filter(step=step)
    rows.update(reward=1.0, completion_tokens=200, turns=1, metrics={}, answered="")
    label = rows.first().environment  # type: ignore[union-attr]
    short = rows.filter(environment=label).first()
    assert short is not None
    assert odd_rollouts(step).rows == ()
    rows.filter(pk=short.pk).update(completion_tokens=9)
    (found,) = odd_rollouts(step).rows
    assert (found.row.index, found.reasons) == (short.index, ("very short: 9 tokens, where 200 are usual",))
    rows.filter(environment=label).update(completion_tokens=9)
    assert odd_rollouts(step).rows == ()
    rows.filter(environment=label).exclude(pk=short.pk).update(completion_tokens=200)
    page = ada.get(f"/training/{showcase.running.pk}/rollouts").content.decode()
    assert "1 suspicious rollout " in page


def test_a_good_answer_that_repeats_itself_is_odd(showcase: TrainingShowcase) -> None:
    step = Step.objects.get(training=showcase.running, step=showcase.running.step)
    rows = TrainingRollout.objects.filter(step=step)
    rows.update(reward=1.0, completion_tokens=200, turns=1, metrics={}, answered="A short and plain answer.")
    rows.filter(index=2).update(answered="so it is right " * 10)
    (found,) = odd_rollouts(step).rows
    assert found.row.index == 2
    assert "repeats itself" in found.reasons[0]
