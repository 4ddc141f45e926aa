"""A step's rollouts by example: squares, mixed results, the filter, and pages of bounded cost."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from envhub.protocol.evals.rollouts import Outcome

from hub.training import example_groups
from hub.training.models import TrainingRollout
from hub.web.templatetags.hub_format import seconds
from tests.factories.training_showcase import GROUP, TrainingShowcase
from tests.hub.training.addresses import address


def _page(ada: Client, showcase: TrainingShowcase, query: str) -> Any:
    reply = ada.get(f"{address(showcase, 'rollouts')}?step=60&{query}")
    assert reply.status_code == 200
    return reply


def test_an_example_is_a_row_with_a_square_for_each_rollout(ada: Client, showcase: TrainingShowcase) -> None:
    reply = _page(ada, showcase, "show=examples")
    groups = reply.context["groups"].groups
    assert [len(group.squares) for group in groups] == [GROUP] * 4
    assert (groups[0].target, groups[0].asked[:8]) == ("dcba", "reverse:")
    assert groups[2].dropped == "zero_signal"
    assert f"/rollouts/60/{GROUP + 1}" in reply.text


def test_only_examples_with_different_rewards_are_mixed(ada: Client, showcase: TrainingShowcase) -> None:
    groups = _page(ada, showcase, "show=mixed").context["groups"].groups
    assert [group.first for group in groups] == [0, GROUP, 3 * GROUP]
    TrainingRollout.objects.filter(step__step=60, step__training=showcase.running).update(reward=1.0)
    assert "No mixed results" in _page(ada, showcase, "show=mixed").text


def test_the_filter_keeps_examples_with_a_rollout_that_passes(ada: Client, showcase: TrainingShowcase) -> None:
    reply = _page(ada, showcase, "show=examples&outcome=failed")
    assert [group.first for group in reply.context["groups"].groups] == [3 * GROUP]
    assert "show=mixed" in reply.text
    assert "outcome=failed&amp;step=59&amp;show=examples" in reply.text
    assert len(_page(ada, showcase, "show=examples&environment=guess-number").context["groups"].groups) == 1


def test_pages_end_between_groups(ada: Client, showcase: TrainingShowcase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_groups, "MOST_SCANNED", 2 * GROUP + 3)
    first = _page(ada, showcase, "show=examples").context["groups"]
    assert [group.first for group in first.groups] == [0, GROUP]
    second = ada.get(first.next).context["groups"]
    assert [(group.first, len(group.squares)) for group in second.groups] == [(2 * GROUP, GROUP), (3 * GROUP, GROUP)]
    assert second.next is None


def test_the_table_shows_texts_and_time_if_they_are_stored(ada: Client, showcase: TrainingShowcase) -> None:
    html = _page(ada, showcase, "").text
    assert "Prompt</th>" in html
    assert f"{seconds(1.3)}</td>" in html
    rows = TrainingRollout.objects.filter(step__training=showcase.running)
    failed = rows.filter(outcome=Outcome.FAILED.value).first()
    assert failed is not None
    assert failed.asked.startswith("reverse:")
    rows.update(asked="", answered="", target="")
    assert "Prompt</th>" not in _page(ada, showcase, "").text


def test_the_api_has_the_texts(ada: Client, showcase: TrainingShowcase) -> None:
    row = ada.get(f"/api/v1/training/{showcase.running.pk}/rollouts?limit=1").json()["items"][0]
    assert (row["target"], row["duration_s"]) == ("dcba", 1.3)
