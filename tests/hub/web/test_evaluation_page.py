"""The evaluation page: its fragments, filters, sorting, and what its buttons do."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runs import FailureKind

from hub.evals.models import Evaluation
from hub.registry.models import Environment
from hub.runs.models import Worker
from tests.factories.evals import create_hosted, make_failure, make_record, store
from tests.hub.web.showcase import Showcase

pytestmark = pytest.mark.django_db
REWARD = 5  # the table's column, from 0


def htmx(client: Client, url: str, target: str) -> tuple[str, dict[str, str]]:
    reply = client.get(url, headers={"HX-Request": "true", "HX-Target": target})
    return reply.content.decode(), dict(reply.headers)


def test_the_live_fragment_polls_until_the_evaluation_has_ended(showcase: Showcase, ada: Client) -> None:
    url = f"/evaluations/{showcase.running.pk}"
    going_on, _ = htmx(ada, url, "live")
    assert 'hx-trigger="every 2s"' in going_on
    assert "<html" not in going_on
    assert 'id="results"' not in going_on
    Evaluation.objects.filter(pk=showcase.running.pk).update(state="succeeded")
    ended, _ = htmx(ada, url, "live")
    assert 'id="live"' in ended
    assert "hx-trigger" not in ended


def test_figures_lead_to_the_rollouts_behind_them(showcase: Showcase, ada: Client) -> None:
    url = f"/evaluations/{showcase.ended.pk}"
    page = ada.get(url).content.decode()
    shown = {link.partition("?")[0] for link in re.findall(r'href="([^"]+\?(?:outcome|min_reward)=[^"]*)"', page)}
    assert "min_reward=" in page
    assert shown == {url}


def test_each_reward_of_the_list_has_its_shade(showcase: Showcase, ada: Client) -> None:
    page = ada.get(f"/evaluations/{showcase.ended.pk}").text
    shades = re.findall(r'reward--small reward--(\d)" aria-hidden="true"></i> ([\d.]+)</td>', page)
    assert shades
    assert all(round(4 * float(reward)) == int(shade) for shade, reward in shades)  # the highest of them is 1


def test_who_works_on_it_is_for_members(showcase: Showcase, ada: Client, client: Client) -> None:
    url = f"/evaluations/{showcase.running.pk}"
    Evaluation.objects.filter(pk=showcase.running.pk).update(visibility="public")
    Environment.objects.update(visibility="public")
    told = ada.get(url).content.decode()
    assert "3 runs in parallel" in told
    assert "none yet" in told
    assert "runs in parallel" not in client.get(url).content.decode()


def test_a_poll_announces_new_rollouts_only(showcase: Showcase, ada: Client) -> None:
    url = f"/evaluations/{showcase.running.pk}?stored=36"
    assert "HX-Trigger" not in htmx(ada, url, "live")[1]
    store(showcase.running, [make_record(20, 0)])
    assert htmx(ada, url, "live")[1]["HX-Trigger"] == "rollouts-stored"


def test_a_table_is_renewed_every_few_seconds_at_most_and_once_more_at_the_end(showcase: Showcase, ada: Client) -> None:
    url = f"/evaluations/{showcase.running.pk}"

    def poll(query: str) -> tuple[str, int, bool]:
        html, headers = htmx(ada, url + query, "live")
        query, wait = re.findall(r'hx-get="[^"]+(\?stored=\d+&amp;wait=(\d))"', html)[0]
        return unescape(query), int(wait), "HX-Trigger" in headers

    store(showcase.running, [make_record(20, 0)])
    query, wait, is_told = poll("?stored=36")
    assert query.startswith("?stored=37&")
    assert is_told
    assert 1 <= wait <= 3
    store(showcase.running, [make_record(21, 0)])
    for left in range(wait - 1, -1, -1):
        query, *counted = poll(query)
        assert counted == [left, False]
        assert query.startswith("?stored=37&")  # it is still to be told of the last one
    assert poll(query)[2]
    Evaluation.objects.filter(pk=showcase.running.pk).update(state="succeeded")
    assert "HX-Trigger" in htmx(ada, f"{url}?stored=37&wait=3", "live")[1]


def test_page_and_fragment_are_not_mixed_up_by_caches(showcase: Showcase, ada: Client) -> None:
    _, headers = htmx(ada, f"/evaluations/{showcase.ended.pk}", "results")
    assert "HX-Request" in headers["Vary"]


def test_going_back_in_history_gets_the_whole_page(showcase: Showcase, ada: Client) -> None:
    headers = {"HX-Request": "true", "HX-Target": "results", "HX-History-Restore-Request": "true"}
    assert "<html" in ada.get(f"/evaluations/{showcase.ended.pk}", headers=headers).content.decode()


def test_rollouts_are_filtered_by_reward_and_sorted(showcase: Showcase, ada: Client) -> None:
    html, _ = htmx(ada, f"/evaluations/{showcase.ended.pk}?min_reward=0.9&sort=reward&outcome=", "results")
    rewards = [float(cell) for cell in _cells(html, REWARD)]
    assert rewards
    assert rewards == sorted(rewards)
    assert rewards[0] >= 0.9


def test_a_form_without_values_shows_everything(showcase: Showcase, ada: Client) -> None:
    url = f"/evaluations/{showcase.ended.pk}?outcome=&min_reward=&max_reward=&example=&sort=newest"
    reply = ada.get(url)
    assert reply.status_code == 200
    assert len(_cells(reply.content.decode(), REWARD)) == 50


def test_rollouts_are_shown_with_what_was_asked_and_answered_or_why_they_failed(
    showcase: Showcase, ada: Client
) -> None:
    evaluation = create_hosted(showcase.user)
    asked = [{"role": "user", "content": "<b>How much</b> is it?"}]
    store(evaluation, [make_record(prompt=asked, task={"answer": "72"}), make_failure(0, 1, FailureKind.POLICY)])
    page = ada.get(f"/evaluations/{evaluation.pk}?sort=example").content.decode()
    for shown in ("&lt;b&gt;How much&lt;/b&gt; is it?", "<bdi>answer</bdi>", ">72<", ">Timeout: no answer<"):
        assert shown in page


def test_the_next_page_goes_on_where_the_first_ended(showcase: Showcase, ada: Client) -> None:
    first = ada.get(f"/evaluations/{showcase.ended.pk}?sort=example")
    second = ada.get(first.context["next"])
    rows = [(row.example, row.rollout) for reply in (first, second) for row in reply.context["rollouts"]]
    assert rows == [(example, rollout) for example in range(14) for rollout in range(4)]
    assert second.context["next"] is None


@pytest.mark.parametrize("query", ["min_reward=much", "outcome=great", "sort=up", "cursor=x", "example=-1"])
def test_a_filter_that_makes_no_sense_is_explained(showcase: Showcase, ada: Client, query: str) -> None:
    reply = ada.get(f"/evaluations/{showcase.ended.pk}?{query}")
    assert reply.status_code == 422
    assert 'role="alert"' in reply.content.decode()


def test_members_cancel_by_a_form(showcase: Showcase, ada: Client) -> None:
    url = f"/evaluations/{showcase.running.pk}"
    assert f'action="{url}/cancel"' in ada.get(url).content.decode()
    assert ada.post(f"{url}/cancel")["Location"] == url
    showcase.running.run.refresh_from_db()  # type: ignore[union-attr]
    assert showcase.running.run.cancel_requested_at is not None  # type: ignore[union-attr]


def test_cancelling_what_has_ended_is_explained(showcase: Showcase, ada: Client) -> None:
    reply = ada.post(f"/evaluations/{showcase.ended.pk}/cancel")
    assert reply.status_code == 409
    assert "not running" in reply.content.decode()


def test_buttons_need_the_csrf_token(showcase: Showcase) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(showcase.user)
    reply = client.post(f"/evaluations/{showcase.running.pk}/cancel")
    assert reply.status_code == 403
    assert "This form has expired" in reply.content.decode()


def test_a_failure_offers_to_attempt_it_again(showcase: Showcase, ada: Client) -> None:
    url = f"/evaluations/{showcase.ended.pk}"
    assert f'action="{url}/resume"' in ada.get(url).content.decode()
    assert ada.post(f"{url}/resume")["Location"] == url
    showcase.ended.refresh_from_db()
    assert showcase.ended.state == "queued"


def test_an_evaluation_that_nobody_has_begun_says_why_it_waits(showcase: Showcase, ada: Client) -> None:
    Worker.objects.update(seen_at=timezone.now())  # the showcase's: a slow machine may take long to come here
    ada.post(f"/evaluations/{showcase.ended.pk}/resume")
    assert " ahead" in ada.get(f"/evaluations/{showcase.ended.pk}").content.decode()


@pytest.mark.parametrize(
    ("state", "says"), [("running", "Rollouts appear here as they finish"), ("failed", "The evaluation ended before")]
)
def test_without_rollouts_the_page_promises_some_only_while_it_runs(
    showcase: Showcase, ada: Client, state: str, says: str
) -> None:
    evaluation = create_hosted(showcase.user, name="calculator-tool")
    Evaluation.objects.filter(pk=evaluation.pk).update(state=state)
    html = ada.get(f"/evaluations/{evaluation.pk}").content.decode()
    assert says in html
    assert ("scored yet" in html) == (state == "running")


@pytest.mark.parametrize(("records", "cards"), [([], []), ([make_failure(0, 0)], ["coverage"])])
def test_where_nothing_was_scored_no_empty_card_is_left(
    showcase: Showcase, ada: Client, records: list[RolloutRecord], cards: list[str]
) -> None:
    failed = create_hosted(showcase.user, name="calculator-tool")
    if records:
        store(failed, records)
    Evaluation.objects.filter(pk=failed.pk).update(state="failed")
    page = ada.get(f"/evaluations/{failed.pk}").content.decode()
    assert re.findall(r'class="card" aria-labelledby="(\w+)"', page) == cards
    assert (f'<a href="/runs/{failed.run_id}">See the log</a>' in page) is not bool(records)


def _cells(html: str, column: int) -> list[str]:
    body = html.partition('<table class="rollouts">')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [row.split("<td")[1:] for row in body.split("<tr>")[1:]]
    return [re.sub("<[^>]*>", "", row[column].partition(">")[2].partition("</td>")[0]).strip() for row in rows]


def test_results_of_an_environment_that_is_not_there_are_none_with_a_way_back(ada: Client) -> None:
    reply = ada.get("/evaluations?environment=ada/nosuch")
    assert reply.status_code == 200
    assert "No environment ada/nosuch" in reply.text
    assert 'href="/evaluations"' in reply.text


def test_what_names_no_environment_is_refused_with_a_way_back(ada: Client) -> None:
    reply = ada.get("/evaluations?environment=nosuch")
    assert reply.status_code == 422
    assert 'href="/evaluations">Show all' in reply.text


def test_failures_are_told_by_cause_with_one_to_look_at(showcase: Showcase, ada: Client) -> None:
    html = ada.get(f"/evaluations/{showcase.ended.pk}").content.decode()
    causes = html.partition('id="failures"')[2].partition("</details>")[0]
    assert "no answer within 60 s" in causes
    assert f"/evaluations/{showcase.ended.pk}/rollouts/" in causes


def test_examples_have_a_square_for_each_rollout_with_its_reward_in_words(showcase: Showcase, ada: Client) -> None:
    html, _ = htmx(ada, f"/evaluations/{showcase.ended.pk}?show=examples", "results")
    assert html.count('aria-label="rollout 0: ') == 14
    assert 'class="reward reward--none"' in html
