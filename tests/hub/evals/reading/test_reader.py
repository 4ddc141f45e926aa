"""The page of a rollout in parts: windows, turns, calls, pictures, and the list that one came from."""

from __future__ import annotations

import base64
import json
import re

import pytest
from django.test import Client
from envhub.protocol.base import Json, JsonObject
from envhub.protocol.evals.rollouts import Turn

from hub.accounts.models import User
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.paging import Sort, cursor_of, first_rows, rows_before
from hub.evals.queries import read_record
from hub.evals.reading.transcript import transcript
from hub.evals.replays import Sampled, calls_by_message
from hub.web.templatetags.hub_format import whole
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_failure, make_record, start, store
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nx").decode()
LONG = "word " * 3000


@pytest.fixture
def user() -> User:
    return make_user("alice")


@pytest.fixture
def client(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def evaluation(user: User, *records: Json, **changes: Json) -> Evaluation:
    create_ready_version(user, "words")
    made = create_hosted(user, name="words", num_examples=9, rollouts_per_example=9)
    start(made)
    store(made, list(records))
    return made


def said(number: int, **more: Json) -> JsonObject:
    return {"role": "assistant", "content": f"said {number}.", **more}


def conversation_of(count: int) -> list[JsonObject]:
    return [said(number) for number in range(count)]


def numbers(html: str) -> list[int]:
    return [int(number) for number in re.findall(r'<article class="turn[^"]*" id="t(\d+)"', html)]


def test_all_of_a_long_rollout_is_reached_in_windows(user: User, client: Client) -> None:
    found = evaluation(user, make_record(prompt=None, completion=conversation_of(2003)))
    address = f"/evaluations/{found.pk}/rollouts/0/0"
    page = client.get(address).content.decode()
    assert f"{whole(2003)} messages" in page
    seen = numbers(page)
    while more := re.search(r'hx-get="[^"]*&amp;from=(\d+)"', page):
        page = client.get(address, {"sort": "example", "from": more.group(1)}).content.decode()
        assert "<html" not in page
        seen += numbers(page)
    assert seen == list(range(2003))


def test_an_address_of_a_turn_shows_it_with_what_is_before_on_offer(user: User, client: Client) -> None:
    found = evaluation(user, make_record(prompt=None, completion=conversation_of(500)))
    page = client.get(f"/evaluations/{found.pk}/rollouts/0/0", {"at": 412}).content.decode()
    assert 412 in numbers(page)
    assert "410 earlier turns" in page
    earlier = client.get(f"/evaluations/{found.pk}/rollouts/0/0", {"until": 410}).content.decode()
    assert numbers(earlier)[-1] == 409


def test_a_long_text_comes_whole_when_it_is_asked_for(user: User, client: Client) -> None:
    found = evaluation(user, make_record(prompt=LONG, completion=[said(1)]))
    address = f"/evaluations/{found.pk}/rollouts/0/0"
    page = client.get(address).content.decode()
    assert f"All {whole(len(LONG))} characters" in page
    assert LONG not in page
    assert LONG.strip() in client.get(address, {"turn": 0}).content.decode()
    assert client.get(address, {"turn": 99}).status_code == 404


def test_long_arguments_and_reasoning_come_whole_as_well(user: User, client: Client) -> None:
    call = {"id": "c", "function": {"name": "write", "arguments": json.dumps({"text": LONG + "arguments"})}}
    said_much = said(1, tool_calls=[call], reasoning_content=LONG + "reasoning")
    found = evaluation(user, make_record(prompt="go", completion=[said_much]))
    address = f"/evaluations/{found.pk}/rollouts/0/0"
    page, one = client.get(address).content.decode(), client.get(address, {"turn": 1}).content.decode()
    for end in ("word arguments", "word reasoning"):
        assert (end in page, end in one) == (False, True)
    assert page.count("characters</a>") == 2


def test_calls_beyond_the_first_come_when_they_are_unfolded(user: User, client: Client) -> None:
    turns = tuple(
        Turn(index=n, protocol="chat", model="m", request={"messages": [said(n)]}, response={}) for n in range(150)
    )
    found = evaluation(user, make_record(completion=[said(1)], turns=turns))
    address = f"/evaluations/{found.pk}/rollouts/0/0"
    page = client.get(address).content.decode()
    assert page.count('<details class="card card--row" id="call-') == 100
    assert page.count("<summary>Request</summary>") == 3
    assert "said 120." in client.get(address, {"call": 120}).content.decode()
    assert 'id="call-149"' in client.get(address, {"calls": 100}).content.decode()
    assert client.get(address, {"call": 150}).status_code == 404


def test_a_search_leads_to_the_turns_that_have_it(user: User, client: Client) -> None:
    found = evaluation(user, make_record(prompt=None, completion=[*conversation_of(300), said(7, content="<b>here")]))
    page = client.get(f"/evaluations/{found.pk}/rollouts/0/0", {"q": "<B>HERE", "outcome": "ok"}).content.decode()
    assert "<mark>&lt;b&gt;here</mark>" in page
    assert "outcome=ok&amp;sort=example&amp;q=%3CB%3EHERE&amp;at=300#t300" in page


@pytest.mark.parametrize("where", ["task", "library"])
def test_the_target_stands_once_below_the_reward(user: User, client: Client, where: str) -> None:
    row = {"answer": {"is": "forty-two"}, "level": "hard"}
    found = evaluation(user, make_record(completion=[said(1)], **{where: row}))
    page = client.get(f"/evaluations/{found.pk}/rollouts/0/0").text
    aside = page[page.index('aria-label="Scores"') :]
    assert aside.index("<h2>Reward</h2>") < aside.index("<h2>Target</h2>") < aside.index("<h2>Cost</h2>")
    assert aside.count("forty-two") == 1
    assert ("hard" in aside) is (where == "task")


def test_pictures_are_served_apart_and_only_as_pictures(user: User, client: Client) -> None:
    def part(kind: str) -> JsonObject:
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{PNG}"}}

    content = [{"type": "text", "text": "look"}, part("image/png"), part("image/svg+xml")]
    found = evaluation(user, make_record(prompt=[{"role": "user", "content": content}], completion=[said(1)]))
    address = f"/evaluations/{found.pk}/rollouts/0/0"
    page = client.get(address).content.decode()
    assert page.count("<img") == 1
    assert page.count(PNG) == 1  # of the kind that is not shown, as the JSON that it is
    reply = client.get(f"{address}/pictures/0/0")
    assert (reply["Content-Type"], reply.content[:4]) == ("image/png", b"\x89PNG")
    assert "sandbox" in reply["Content-Security-Policy"]
    assert client.get(f"{address}/pictures/0/1").status_code == 404
    assert Client().get(f"{address}/pictures/0/0").status_code == 404


def test_markdown_is_rendered_only_when_it_is_asked_for(user: User, client: Client) -> None:
    text = "**bold** <script>x</script>"
    found = evaluation(user, make_record(prompt=None, completion=[said(1, content=text)]))
    address = f"/evaluations/{found.pk}/rollouts/0/0"
    assert "**bold** &lt;script&gt;" in client.get(address).content.decode()
    rendered = client.get(address, {"view": "rendered"}).content.decode()
    assert "<strong>bold</strong>" in rendered
    assert "<script>x" not in rendered


def test_a_browser_keeps_the_view_that_was_chosen_last(user: User, client: Client) -> None:
    found = evaluation(user, *(make_record(0, rollout, completion=[said(1, content="**bold**")]) for rollout in (0, 1)))
    address = f"/evaluations/{found.pk}/rollouts/0"
    client.get(f"{address}/0", {"view": "rendered"})
    assert "<strong>bold</strong>" in client.get(f"{address}/1").text
    client.get(f"{address}/0", {"view": "written"})
    assert "<strong>bold</strong>" not in client.get(f"{address}/1").text


@pytest.fixture
def mixed(user: User) -> Evaluation:
    records = [make_record(example, rollout, reward=(example * 7 + rollout * 3) % 5) for example in range(4)
               for rollout in range(3)]  # fmt: skip
    records[4], records[9] = make_failure(1, 1), make_failure(3, 0)
    return evaluation(user, *records)


@pytest.mark.parametrize("sort", Sort)
def test_what_is_before_a_rollout_is_what_a_list_in_that_order_has_before_it(mixed: Evaluation, sort: Sort) -> None:
    rows = RolloutIndex.objects.filter(evaluation=mixed)
    whole = first_rows(rows, sort, "", 100)
    assert len(whole) == 12
    for place, row in enumerate(whole):
        assert rows_before(rows, sort, row, 5) == whole[max(0, place - 5) : place]
        assert first_rows(rows, sort, cursor_of(row, sort), 5) == whole[place + 1 : place + 6]


def test_the_list_that_one_came_from_stays(mixed: Evaluation, client: Client) -> None:
    page = client.get(f"/evaluations/{mixed.pk}?outcome=failed&sort=example").content.decode()
    assert f"/evaluations/{mixed.pk}/rollouts/1/1?outcome=failed&amp;sort=example" in page
    inside = client.get(f"/evaluations/{mixed.pk}/rollouts/1/1?outcome=failed&sort=example").content.decode()
    (after,) = re.findall(r'rel="next"[^>]*href="([^"]*)"', inside)
    assert after == f"/evaluations/{mixed.pk}/rollouts/3/0?outcome=failed&amp;sort=example"
    assert 'rel="prev"' not in inside


def test_an_order_that_is_none_is_refused(mixed: Evaluation, client: Client) -> None:
    assert client.get(f"/evaluations/{mixed.pk}/rollouts/1/1?sort=worst").status_code == 422
    assert client.get(f"/evaluations/{mixed.pk}/rollouts/1/1?at=-1").status_code == 422


def test_the_list_beside_tells_what_was_asked_and_how_it_scored(user: User, client: Client) -> None:
    asked: list[JsonObject] = [{"role": "user", "content": "reverse these words"}]
    found = evaluation(
        user, *(make_record(0, number, prompt=asked, reward=reward) for number, reward in enumerate((0.0, 1.0)))
    )
    page = client.get(f"/evaluations/{found.pk}/rollouts/0/0").content.decode()
    beside = page[page.index('class="reader__list"') :].partition("</nav>")[0]
    assert beside.count("reverse these words</span>") == 2
    assert re.findall(r'reward--(\d)"></i>(\S+?)</span>', beside) == [("0", "0.000"), ("4", "1.000")]


def test_the_next_failed_one_failed_or_scored_nothing(user: User, client: Client) -> None:
    records = [make_record(0, 0, 1.0), make_record(0, 1, 0.0), make_record(1, 0, 0.5), make_failure(1, 1)]
    found = evaluation(user, *records)

    def following(place: str) -> str:
        page = client.get(f"/evaluations/{found.pk}/rollouts/{place}").content.decode()
        link = re.search(r'data-key="n" href="[^"]*/rollouts/(\d+/\d+)', page)
        return link[1] if link else ""

    assert [following(place) for place in ("0/0", "0/1", "1/0", "1/1")] == ["0/1", "1/1", "1/1", ""]


def call_of(name: str, reward: float, index: int) -> JsonObject:
    """A call of one of several agents, with a picture in its question."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    asked = {"role": "user", "content": [{"type": "text", "text": f"to {name}"}, picture]}
    return {
        "index": index, "protocol": "chat", "model": "m", "request": {"messages": [asked]},
        "response": {"choices": [{"message": said(index)}]},
        "agent": {"id": f"id-{name}", "name": name, "task": "t", "reward": reward},
    }  # fmt: skip


def test_each_agent_of_several_has_its_transcript(user: User, client: Client) -> None:
    turns = [call_of("white", 1.0, 0), call_of("black", -1.0, 1)]
    found = evaluation(user, make_record(prompt=None, completion=[said(9)], turns=turns, reward=0.0))
    address = f"/evaluations/{found.pk}/rollouts/0/0"
    first, second = (client.get(address, query).content.decode() for query in ({}, {"agent": "id-black"}))
    assert ("to white" in first, "said 0." in first, "to black" in first.split("Model calls")[0]) == (True, True, False)
    assert ("to black" in second, "said 1." in second) == (True, True)
    assert re.search(r'agent=id-black"[^>]*>black <span class="muted num">−1.000</span>', first)
    picture = re.search(r'src="([^"]*/pictures/0/0[^"]*)"', second)
    assert picture is not None
    assert client.get(picture.group(1).replace("&amp;", "&")).content == base64.b64decode(PNG)
    assert numbers(client.get(address, {"agent": "nobody"}).content.decode()) == [0, 1]


def test_an_agents_answers_are_matched_with_its_own_calls(user: User, client: Client) -> None:
    turns = [call_of("white", 1.0, 0), call_of("black", -1.0, 1)]
    found = evaluation(user, make_record(prompt=None, completion=[said(9)], turns=turns, reward=0.0))
    record = read_record(RolloutIndex.objects.select_related("segment").get(evaluation=found))
    messages = transcript(record, "id-black").messages
    assert calls_by_message(record, messages, "id-black") == {1: Sampled(before=1, replayed=False)}


def test_side_by_side_shows_the_pictures_of_the_first_agent(user: User, client: Client) -> None:
    turns = [call_of("white", 1.0, 0), call_of("black", -1.0, 1)]
    record = make_record(prompt=None, completion=[said(9)], turns=turns, reward=0.0)
    found = evaluation(user, record, record.model_copy(update={"rollout": 1}))
    query = {"a": str(found.pk), "b": str(found.pk), "example": 0, "rollout_b": 1}
    page = client.get("/evaluations/compare/example", query).content.decode()
    picture = re.search(r'src="([^"]*/pictures/0/0)"', page)
    assert picture is not None, page
    assert client.get(picture.group(1)).content == base64.b64decode(PNG)
