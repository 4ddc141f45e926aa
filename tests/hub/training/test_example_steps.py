"""An example's rollouts over the steps of a training run."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.training.example_steps import MOST_ROLLOUTS, MOST_STEPS, chosen, example_over_steps
from hub.training.models import TrainingRollout
from tests.factories.training_runs import create_run, report, start, step_report
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


def test_the_page_says_what_it_leaves_out_and_shows_the_open_rollout(client: Client, db: None) -> None:
    training = create_run()
    start(training)
    for step in range(1, 21):
        report(training, step_report(step, rewards=[0.5] * 20))
    last = TrainingRollout.objects.select_related("step").get(step__training=training, step__step=20, index=19)
    shown = example_over_steps(training, last, 20)
    assert (len(shown.steps), shown.of, shown.hidden) == (15, 20, 5)
    own = shown.steps[-1]
    assert [one.index for one in own.attempts] == [*range(MOST_ROLLOUTS - 1), 19]
    assert own.more == 4
    client.force_login(training.created_by)
    page = client.get(f"/training/{training.pk}/rollouts/20/19").text
    assert "15 of 20 steps with this example" in page
    assert page.count(">+4</span>") == 15


def test_an_example_that_never_scored_has_the_palest_squares(db: None) -> None:
    training = create_run()
    start(training)
    report(training, step_report(1, rewards=[0.0, 0.0]))
    row = TrainingRollout.objects.select_related("step").get(step__training=training, index=0)
    (only,) = example_over_steps(training, row, 1).steps
    assert [one.shade for one in only.attempts] == [0, 0]
