"""The filter of a list stays in the addresses of its steps, its rollouts, and their neighbours."""

from __future__ import annotations

import re

from django.test import Client

from hub.training.models import TrainingRollout
from tests.factories.training_showcase import TrainingShowcase
from tests.hub.training.addresses import address


def _link(html: str, rel: str) -> str:
    found = re.search(rf'rel="{rel}"[^>]*? href="([^"]+)"', html)
    assert found is not None
    return found[1].replace("&amp;", "&")


def test_the_arrows_between_steps_keep_the_filter(ada: Client, showcase: TrainingShowcase) -> None:
    html = ada.get(f"{address(showcase, 'rollouts')}?step=30&outcome=failed&used=no").text
    assert _link(html, "prev").endswith("/rollouts?outcome=failed&used=no&step=29")
    assert _link(html, "next").endswith("/rollouts?outcome=failed&used=no&step=31")


def test_next_and_previous_stay_in_the_filtered_list(ada: Client, showcase: TrainingShowcase) -> None:
    rows = TrainingRollout.objects.filter(step__training=showcase.running, step__step=60)
    rows.update(outcome="ok")
    rows.filter(index__in=(3, 9, 20)).update(outcome="truncated")
    html = ada.get(f"{address(showcase, 'rollouts')}?step=60&outcome=truncated").text
    first = re.findall(r'href="([^"]+/rollouts/60/3[^"]*)"', html)[0]
    assert first.endswith("/60/3?outcome=truncated")
    second = _link(ada.get(first).text, "next")
    assert second.endswith("/60/9?outcome=truncated&show=transcript")
    assert _link(ada.get(second).text, "prev").endswith("/60/3?outcome=truncated&show=transcript")
    last = ada.get(_link(ada.get(second).text, "next")).text
    assert 'rel="next"' not in last
    assert "/rollouts?outcome=truncated&amp;step=60#rollouts" in last


def test_a_list_of_all_steps_leads_from_step_to_step(ada: Client, showcase: TrainingShowcase) -> None:
    html = ada.get(address(showcase, "labelled")).text
    places = re.findall(r'href="([^"]+/rollouts/\d+/\d+\?[^"]*steps=all[^"]*)"', html)
    assert places
    rows = ada.get(places[0].replace("&amp;", "&")).context["place"].rows
    assert len(rows) == len(places)
    assert ada.get(f"{address(showcase, 'rollout')}?steps=all").context["opened"].everywhere is False


def test_a_change_of_labels_keeps_the_filter(ada: Client, showcase: TrainingShowcase) -> None:
    page = f"{address(showcase, 'rollout')}?used=yes"
    assert '/label?used=yes&show=transcript"' in ada.get(page).text.replace("&amp;", "&")
    reply = ada.post(f"{address(showcase, 'rollout')}/label?used=yes", {"label": "odd"})
    assert reply["Location"].endswith("?used=yes#said")


def test_a_filter_that_makes_no_sense_is_refused(ada: Client, showcase: TrainingShowcase) -> None:
    assert ada.get(f"{address(showcase, 'rollout')}?outcome=odd").status_code == 422
