"""An example's rollouts over the steps of a training run."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.training.example_steps import MOST_ROLLOUTS, MOST_STEPS, chosen, example_over_steps
from hub.training.models import TrainingRollout
from tests.factories.training_showcase import TrainingShowcase


@pytest.mark.parametrize(
    ("steps", "here", "wanted"),
    [
        ([], 3, []),
        ([2, 5], 5, [2, 5]),
        (list(range(1, 300)), 150, [1, 150, 299]),
        (list(range(100)), 1, [0, 1, 99]),
    ],
)
def test_the_first_the_last_and_this_step_are_among_the_chosen(steps: list[int], here: int, wanted: list[int]) -> None:
    found = chosen(steps, here)
    assert set(wanted) <= set(found)
    assert found == sorted(set(found))
    assert len(found) <= MOST_STEPS


def test_an_example_is_followed_through_the_steps_that_had_it(ada: Client, showcase: TrainingShowcase) -> None:
    training = showcase.running
    rows = TrainingRollout.objects.filter(step__training=training).order_by("step__step", "index")
    last = rows.last()
    assert last is not None
    early = rows.filter(environment=last.environment, step__step__lt=training.step).first()
    assert early is not None
    rows.filter(example=last.example).exclude(pk=last.pk).update(example=998)
    TrainingRollout.objects.filter(pk=early.pk).update(example=last.example, reward=None)
    TrainingRollout.objects.filter(pk=last.pk).update(reward=2.0)
    found = example_over_steps(training, last, training.step).steps
    assert [one.attempts[0].shade for one in found] == [None, 4]
    assert found[-1].step == training.step
    page = ada.get(f"/training/{training.pk}/rollouts/{training.step}/{last.index}").content.decode()
    assert "This example in all steps" in page


def test_the_page_says_what_it_leaves_out_and_shows_the_open_rollout(ada: Client, showcase: TrainingShowcase) -> None:
    training, step = showcase.running, showcase.running.step
    rows = TrainingRollout.objects.filter(step__training=training)
    rows.update(environment="reverse-text", example=7)
    last = rows.filter(step__step=step).order_by("-index").select_related("step")[0]
    shown = example_over_steps(training, last, step)
    assert (len(shown.steps), shown.of) == (MOST_STEPS, step)
    own = shown.steps[-1]
    assert len(own.attempts) == MOST_ROLLOUTS
    assert own.attempts[-1].index == last.index
    assert own.more == last.index + 1 - MOST_ROLLOUTS
    page = ada.get(f"/training/{training.pk}/rollouts/{step}/{last.index}").text
    assert "16 of 60 steps with this example" in page
    assert ">+16</span>" in page
