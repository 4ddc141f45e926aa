"""The reader of training rollouts: the transcript that evaluations show, in parts, beside the tokens."""

from __future__ import annotations

import base64
import re

import pytest
from django.test import Client
from envhub.protocol.accounts.links import ShareLinkRequest
from envhub.protocol.base import Json, JsonObject

from hub.links.services import create_link
from hub.training.models import TrainingRun
from tests.factories.training_runs import create_run, report, start, step_report
from tests.factories.training_showcase import GROUP, TrainingShowcase
from tests.hub.training.addresses import address

pytestmark = pytest.mark.django_db
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nx").decode()


def _told(completion: Json, prompt: Json = None) -> tuple[TrainingRun, Client, str]:
    """A run with a step of two rollouts that have this conversation, its user's browser, and the first's address."""
    training = create_run()
    start(training)
    report(training, step_report(1, prompt=prompt, completion=completion))
    client = Client()
    client.force_login(training.created_by)
    return training, client, f"/training/{training.pk}/rollouts/1/0"


def test_a_tool_call_and_its_result_are_one_line(db: None) -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "pytest -q"}'}}
    result = {"role": "tool", "tool_call_id": "c", "content": "1 failed\nexit code 1"}
    _, client, path = _told([{"role": "assistant", "content": "", "tool_calls": [call]}, result])
    html = client.get(path).text
    assert '<details class="call" id="t2"' in html
    assert "exit 1, 2 lines" in html
    assert 'class="strip__bad"' in html


def test_a_long_rollout_comes_in_windows_and_all_of_it_is_searched(db: None) -> None:
    messages: list[JsonObject] = [{"role": "assistant", "content": f"said {number}."} for number in range(300)]
    _, client, path = _told(messages)
    html = client.get(f"{path}?outcome=ok").text
    following = re.search(r'hx-get="([^"]*&amp;from=\d+)"', html)
    assert following is not None
    assert "outcome=ok" in following[1]
    part = client.get(following[1].replace("&amp;", "&")).text
    assert "<html" not in part
    assert "said 45." in part
    assert "<mark>said 299</mark>" in client.get(f"{path}?q=said 299").text
    assert 'id="t280"' in client.get(f"{path}?at=280").text


def test_pictures_are_served_apart_to_those_who_see_the_run(db: None) -> None:
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    training, client, path = _told([{"role": "assistant", "content": "seen"}], [{"role": "user", "content": content}])
    assert f'src="{path}/pictures/0/0"' in client.get(path).text
    assert client.get(f"{path}/pictures/0/0")["Content-Type"] == "image/png"
    assert client.get(f"{path}/pictures/0/1").status_code == 404
    assert Client().get(f"{path}/pictures/0/0").status_code == 404
    wanted = ShareLinkRequest(training=str(training.pk))
    secret = create_link(user=training.created_by, request=wanted)[1].rpartition("/")[2]
    shared = f"/shared/{secret}/rollouts/1/0"
    assert f'src="{shared}/pictures/0/0"' in Client().get(shared).text
    assert Client().get(f"{shared}/pictures/0/0")["Content-Type"] == "image/png"


def test_the_list_beside_the_transcript_and_the_view_are_kept(ada: Client, showcase: TrainingShowcase) -> None:
    html = ada.get(f"{address(showcase, 'tokens')}&used=yes").text
    links = re.findall(r'<li><a href="(/training/[^"]+)"', html)
    assert len(links) > 10
    assert all(link.endswith("?used=yes&amp;show=tokens") for link in links)
    assert 'data-key="J"' in html
    assert "data-tokens" in html
    transcript = ada.get(f"{address(showcase, 'rollout')}?used=yes").text
    assert "data-tokens" not in transcript
    assert "reverse: " in transcript.partition('class="reader__list"')[2].partition("</nav>")[0]


def test_two_rollouts_of_an_example_stand_side_by_side(ada: Client, showcase: TrainingShowcase) -> None:
    step, index = showcase.rollout
    html = ada.get(address(showcase, "rollout")).text
    assert f"/rollouts/compare?at={step}.{index}&amp;at={step}.{index + 1}" in html
    page = ada.get(address(showcase, "sides"))
    assert [column.letter for column in page.context["columns"]] == ["A", "B"]
    assert f"Step {step}" in page.text
    rollouts = f"/training/{showcase.running.pk}/rollouts/compare"
    other = f"{rollouts}?at={step}.{index}&at={step}.{(index + GROUP) % (4 * GROUP)}"
    for wrong in (other, rollouts, f"{rollouts}?at=1&at=2", f"{rollouts}?at=1.1&at=-1.2"):
        assert ada.get(wrong).status_code == 422, wrong
    assert ada.get(f"{rollouts}?at=1.1&at=999.2").status_code == 404


def test_two_rollouts_side_by_side_have_their_pictures_and_go_on(db: None) -> None:
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    said: list[JsonObject] = [{"role": "assistant", "content": f"said {number}."} for number in range(100)]
    training, client, _ = _told(said, [{"role": "user", "content": content}])
    rollouts = f"/training/{training.pk}/rollouts"
    page = client.get(f"{rollouts}/compare?at=1.0&at=1.1")
    for index in (0, 1):
        assert f'src="{rollouts}/1/{index}/pictures/0/0"' in page.text
    assert page.text.count("61 more turns") == 2
    later = client.get(f"{rollouts}/compare{page.context['later']}")
    assert [turn.number for turn in later.context["columns"][1].turns][:1] == [40]
