"""Attempts at one example side by side: of several evaluations or of one, from the first turn that differs."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.base import JsonObject

from hub.accounts.models import User
from hub.evals.comparing.side_turns import AROUND, Excerpt, excerpt
from hub.evals.comparing.transcript_sides import first_difference
from hub.evals.models import Evaluation
from hub.evals.reading.transcript import SHOWN, WINDOW, Turn, transcript
from hub.web.templatetags.hub_format import whole
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_record, start, store

pytestmark = pytest.mark.django_db


def turns(*texts: str) -> list[Turn]:
    said = [{"role": "assistant", "content": text} for text in texts]
    return list(transcript(make_record(prompt=None, completion=said)).turns)


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        (("a", "b"), ("a", "b"), None),
        (("a", "b"), ("a", "c"), 1),
        (("a",), ("a", "b"), 1),
        (("a", "b"), (), 0),
    ],
)
def test_the_first_difference_is_a_turn_that_says_something_else_or_is_missing(
    one: tuple[str, ...], other: tuple[str, ...], place: int | None
) -> None:
    assert first_difference(turns(*one), turns(*other)) == place


def test_ids_of_tool_calls_are_no_difference() -> None:
    def called(identity: str) -> list[Turn]:
        call = {"id": identity, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        said = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "a.py", "tool_call_id": identity},
        ]
        return list(transcript(make_record(prompt=None, completion=said)).turns)

    assert first_difference(called("x"), called("y")) is None


def seen(picture: str) -> list[JsonObject]:
    """A call whose result is a picture under the same text."""
    call = {"id": "x", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "the page"}, image], "tool_call_id": "x"},
    ]


def test_another_picture_in_a_result_is_a_difference() -> None:
    first, same, other = (
        transcript(make_record(prompt=None, completion=seen(one))).turns for one in ("AA", "AA", "BB")
    )
    assert first_difference(first, same) is None
    assert first_difference(first, other) == 0


def test_a_long_text_is_shown_from_where_it_differs() -> None:
    alike = "a" * (3 * SHOWN)
    assert excerpt(alike, alike) == Excerpt("a" * SHOWN, 0, 3 * SHOWN, False)
    found = excerpt(f"{alike}b{alike}", f"{alike}c{alike}")
    assert (found.skipped, found.differs, found.is_cut) == (3 * SHOWN - AROUND, True, True)
    assert found.text[: AROUND + 1] == "a" * AROUND + "b"
    assert excerpt(alike, f"{alike}c").text == "a" * SHOWN
    assert excerpt("b", "c") == Excerpt("b", 0, 1, True)


@pytest.fixture
def user() -> User:
    return make_user("ada")


@pytest.fixture
def client(user: User) -> Client:
    found = Client()
    found.force_login(user)
    return found


@pytest.fixture
def evaluation(user: User) -> Evaluation:
    """Two attempts that part at the thirtieth turn."""
    found = create_hosted(user)
    start(found)
    alike = [{"role": "assistant", "content": f"word {number}"} for number in range(29)]
    ends = [{"role": "assistant", "content": f"end {at}"} for at in (0, 1)]
    store(found, [make_record(0, at, completion=[*alike, end]) for at, end in enumerate(ends)])
    return found


def test_two_attempts_of_one_evaluation_are_shown_from_where_they_part(client: Client, evaluation: Evaluation) -> None:
    address = f"/evaluations/compare/example?a={evaluation.pk}&b={evaluation.pk}&example=0&at=0&at=1"
    page = client.get(address).content.decode()
    assert page.count("first difference from A") == 1
    assert 'id="B-differs"' in page
    assert "word 26<" not in page
    assert "word 27<" in page
    assert "word 0" in client.get(f"{address}&from=0").content.decode()


def test_a_square_changes_the_attempt_of_its_own_column(client: Client, evaluation: Evaluation) -> None:
    address = f"/evaluations/compare/example?a={evaluation.pk}&b={evaluation.pk}&example=0&at=0&at=1"
    columns = client.get(address).context["columns"]
    assert [link.split("&example=0")[1] for link, _ in columns[1].side.squares] == ["&at=0&at=0", "&at=0&at=1"]
    same = client.get(address.replace("at=1", "at=0")).content.decode()
    assert "identical to A" in same


def test_the_reader_leads_to_the_other_attempts(client: Client, evaluation: Evaluation) -> None:
    page = client.get(f"/evaluations/{evaluation.pk}/rollouts/0/0").content.decode()
    assert f"a={evaluation.pk}&amp;b={evaluation.pk}&amp;example=0&amp;at=0&amp;at=1" in page


def test_a_cut_says_so_and_a_difference_after_it_is_seen(client: Client, user: User) -> None:
    found = create_hosted(user)
    start(found)
    told: list[JsonObject] = [
        {"role": "assistant", "content": "", "reasoning_content": "same " * SHOWN + end} for end in ("left", "right")
    ]
    store(found, [make_record(0, at, prompt=None, completion=[one]) for at, one in enumerate(told)])
    address = f"/evaluations/compare/example?a={found.pk}&b={found.pk}&example=0&at=0&at=1"
    page = client.get(address).content.decode()
    assert ("same left<" in page, "same right<" in page) == (True, True)
    assert page.count("characters are identical") == 2
    assert f'/evaluations/{found.pk}/rollouts/0/1?at=0#t0">All {whole(len("same ") * SHOWN + 5)} characters' in page
    assert page.count('<details class="reasoning" open>') == 2  # the difference is inside them


def test_pictures_stand_beside_each_other_with_and_without_text(client: Client, user: User) -> None:
    found = create_hosted(user)
    start(found)
    _, result = seen("AAAA")
    completions = [[{"role": "user", "content": result["content"]}, *seen(one)] for one in ("AAAA", "BBBB")]
    store(found, [make_record(0, at, prompt=None, completion=one) for at, one in enumerate(completions)])
    address = f"/evaluations/compare/example?a={found.pk}&b={found.pk}&example=0&at=0&at=1"
    page = client.get(address).content.decode()
    shown = [f"/evaluations/{found.pk}/rollouts/0/{at}/pictures/{turn}/0" for at in (0, 1) for turn in (0, 2)]
    assert [one in page for one in shown] == [True] * 4
    assert client.get(shown[3]).content == b"\x04\x10A"


def test_long_attempts_are_paged_in_step(client: Client, user: User) -> None:
    found = create_hosted(user)
    start(found)
    told = [[{"role": "assistant", "content": f"{at} says {n}."} for n in range(100)] for at in (0, 1)]
    told[1] = told[1][:50]
    store(found, [make_record(0, at, prompt=None, completion=one) for at, one in enumerate(told)])
    address = f"/evaluations/compare/example?a={found.pk}&b={found.pk}&example=0&at=0&at=1"
    seen: list[list[int]] = [[], []]
    while address:
        reply = client.get(address)
        for at, column in enumerate(reply.context["columns"]):
            seen[at] += [turn.number for turn in column.turns]
            assert len(column.turns) <= WINDOW
        address = f"/evaluations/compare/example{reply.context['later']}" if reply.context["later"] else ""
    assert seen == [list(range(100)), list(range(50))]
    assert "on earlier pages" in reply.content.decode()
    assert reply.context["columns"][1].difference.endswith("from=0#B-differs")


@pytest.mark.parametrize("query", ["at=-1", "at=x", "from=-1", "b=&b="])
def test_nonsense_is_refused(client: Client, evaluation: Evaluation, query: str) -> None:
    second = "" if query.startswith("b=") else f"&b={evaluation.pk}"
    address = f"/evaluations/compare/example?a={evaluation.pk}{second}&example=0&{query}"
    assert client.get(address).status_code == 422
