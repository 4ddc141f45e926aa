"""Share links: one result for whoever has the address, as long as it works, and nothing else of its owner."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.links import ShareLinkRequest
from envhub.protocol.evals.replays import Replay

from hub.accounts.models import Membership, Role, User
from hub.audit.models import AuditEntry
from hub.evals.annotation_targets import place_in, target_of
from hub.evals.models import Evaluation
from hub.evals.queries import get_rollout
from hub.evals.services import add_label, add_note
from hub.links import shared_pages
from hub.links.models import ShareLink
from hub.links.services import create_link
from hub.links.shared_pages import MOST_WRONG
from hub.runs.models import Run
from hub.training.models import TrainingRun
from hub.training.services import report_step
from tests.factories.accounts import bearer, make_owner, make_token, make_user
from tests.factories.evals import create_hosted, make_failure, make_record, start, store
from tests.factories.training_runs import create_run, step_report, training_request
from tests.factories.training_runs import start as start_training

pytestmark = pytest.mark.django_db
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
HOSTILE = "<script>alert('rollout')</script>"
EACH, MOST = 2, 140
Kind: TypeAlias = tuple[str, tuple[str, ...]]  # path, names of its parameters
HREF = re.compile(r'(?:href|src|action|hx-get)="([^"]*)"')


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def evaluation(alice: User) -> Evaluation:
    """A private one with a picture, something hostile, a label, a failure, and a note for members."""
    found = create_hosted(alice, num_examples=3, rollouts_per_example=2, env_args={"api_key": "sk-very", "size": 3})
    start(found)
    said = [{"role": "user", "content": [PICTURE, {"type": "text", "text": HOSTILE}]}]
    others = [make_record(1, 0, 0.5), make_record(1, 1, 1.0), make_failure(2, 0)]
    answers = [{"role": ("assistant", "user")[place % 2], "content": f"turn {place}"} for place in range(90)]
    store(found, [make_record(prompt=said, completion=answers), make_record(0, 1, 0.0), *others])
    add_note(
        user=alice,
        of=target_of(found),
        place=place_in(found, get_rollout(found, 0, 0)),
        text="a note for members",
    )
    add_label(user=alice, of=target_of(found), place=place_in(found, get_rollout(found, 0, 0)), name="reward-hack")
    return found


@pytest.fixture
def training(alice: User) -> TrainingRun:
    found = create_run(alice)
    start_training(found)
    report_step(training=found, report=step_report(1), guard=lambda: Run.objects.get(pk=found.run_id))
    found.refresh_from_db()
    return found


def link_to(user: User, *evaluations: Evaluation, **fields: Any) -> str:
    """The path of a fresh link."""
    ids = tuple(str(one.pk) for one in evaluations)
    return urlsplit(create_link(user=user, request=ShareLinkRequest(evaluations=ids, **fields))[1]).path


def kind_of(address: str) -> Kind:
    """Addresses of one kind differ in the values of their parameters only."""
    parts = urlsplit(address)
    return parts.path, tuple(sorted(parse_qs(parts.query)))


def pages_from(path: str) -> Iterator[tuple[str, str]]:
    """(address, HTML) of MOST that a stranger gets to from there, EACH of a kind; what leads elsewhere fails."""
    waiting, seen, kinds = [path], set[str](), Counter[Kind]()
    while waiting:
        here = waiting.pop()
        if here in seen or len(seen) == MOST or kinds[kind_of(here)] == EACH:
            continue
        seen.add(here)
        kinds[kind_of(here)] += 1
        response = Client().get(here)
        assert response.status_code == 200, here
        html = response.content.decode(errors="replace")
        yield here, html
        for address in HREF.findall(html) if response["Content-Type"].startswith("text/html") else ():
            parts = urlsplit(urljoin(here, unescape(address)))
            if parts.path.startswith("/static/"):
                continue
            assert parts.netloc in {"", "testserver"}, (here, address)
            assert f"{parts.path}/".startswith(f"{path}/"), (here, address)
            waiting.append(f"{parts.path}?{parts.query}" if parts.query else parts.path)


@pytest.mark.parametrize("kind", ["evaluation", "rollout", "comparison", "training"])
def test_a_stranger_reads_what_is_shared_and_every_way_on_stays_there(
    kind: str, alice: User, evaluation: Evaluation, training: TrainingRun
) -> None:
    other = create_hosted(alice, num_examples=3, rollouts_per_example=2)
    start(other)
    store(other, [make_record(0, 0, 0.25), make_record(1, 0, 0.75)])
    path = {
        "evaluation": lambda: link_to(alice, evaluation),
        "rollout": lambda: link_to(alice, evaluation, example=0, rollout=0),
        "comparison": lambda: link_to(alice, evaluation, other),
        "training": lambda: link_to(alice, training=str(training.pk)),
    }[kind]()
    found = dict(pages_from(path))
    everything = "".join(found.values())
    for private in ("a note for members", "sk-very", "/api/v1/", "/settings", "csrfmiddlewaretoken", HOSTILE):
        assert private not in everything
    assert str(evaluation.pk) not in everything
    assert ("/pictures/0/0" in everything) == (kind != "training")
    assert len(found) > 1
    assert (f"{path}/rollouts/1/0" in found) == (kind == "training")
    assert any(address.startswith(f"{path}/examples/") for address in found) == (kind == "comparison")
    assert ("turn 89" in everything) == (kind != "training")  # in a window that is asked for when it is reached


def test_answers_are_kept_by_nobody_and_tell_no_other_page_of_the_address(alice: User, evaluation: Evaluation) -> None:
    path = link_to(alice, evaluation)
    for address in (path, f"{path}/0/rollouts/0/0", f"{path}/0/rollouts/0/0/pictures/0/0", "/shared/wrong"):
        response = Client().get(address)
        assert response["Referrer-Policy"] == "no-referrer"
        assert response["X-Robots-Tag"].startswith("noindex")
        assert response["Cache-Control"] == "private, no-store"
        assert not response.cookies


def test_a_link_shows_no_other_rollout_than_its_own(alice: User, evaluation: Evaluation) -> None:
    other = create_hosted(alice)
    start(other)
    store(other, [make_record(0, 0)])
    one, whole = link_to(alice, evaluation, example=0, rollout=0), link_to(alice, evaluation)
    refused = (f"{one}/0/rollouts/0/1", f"{one}/0/rollouts/1/0/pictures/0/0", f"{whole}/1/rollouts/0/0")
    assert [Client().get(address).status_code for address in refused] == [404, 404, 404]
    assert Client().get(f"{whole}?a={other.pk}&b={other.pk}").status_code == 200
    assert Client().get(f"{whole}/0/rollouts/0/1").status_code == 200


def test_a_replay_is_told_without_the_id_of_what_it_replays(alice: User, evaluation: Evaluation) -> None:
    told = Replay(evaluation=str(evaluation.pk), example=0, rollout=0, calls=0)
    html = Client().get(link_to(alice, create_hosted(alice, replay=told))).content.decode()
    assert "replay" in html
    assert str(evaluation.pk) not in html


def test_a_comparison_shows_its_examples_side_by_side_and_no_other_link_does(
    alice: User, evaluation: Evaluation
) -> None:
    other = create_hosted(alice, num_examples=3, rollouts_per_example=2)
    start(other)
    store(other, [make_record(0, 0, 0.25), make_record(0, 1, 0.5)])
    path, alone = link_to(alice, evaluation, other), link_to(alice, evaluation)
    html = Client().get(f"{path}/examples/0?at=0&at=1&example=1&a={other.pk}").content.decode()
    assert "Example 0" in html
    assert f'href="{path}/0/rollouts/0/0"' in html
    assert f'href="{path}/1/rollouts/0/1"' in html
    assert Client().get(f"{path}/examples/99").status_code == 404
    assert Client().get(f"{path}/examples/0?at=x").status_code == 422
    assert Client().get(f"{alone}/examples/0").status_code == 404


def test_rollouts_of_a_training_run_are_those_of_its_own_link(
    alice: User, evaluation: Evaluation, training: TrainingRun
) -> None:
    whole = link_to(alice, training=str(training.pk))
    listed = Client().get(f"{whole}/rollouts?step=1&used=yes").content.decode()
    assert f'href="{whole}/rollouts/1/1?used=yes"' in listed
    assert Client().get(f"{whole}/rollouts?step=9").status_code == 422
    refused = (f"{whole}/rollouts/1/9", f"{link_to(alice, evaluation)}/rollouts", f"{whole}/0/rollouts/0/0")
    assert [Client().get(address).status_code for address in refused] == [404, 404, 404]
    other = create_run(alice, training_request(name="another"))
    assert Client().get(f"{link_to(alice, training=str(other.pk))}/rollouts").status_code == 200


def ends_by(what: str, link: ShareLink, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = timezone.now() - timedelta(days=1)
    if what == "time":
        ShareLink.objects.update(expires_at=yesterday)
    elif what == "revoked":
        headers = bearer(make_token(alice))
        assert Client().delete(f"/api/v1/share-links/{link.pk}", headers=headers).status_code == 204
    elif what == "maker left":
        Membership.objects.filter(user=alice, owner=link.owner).delete()
    elif what == "maker disabled":
        User.objects.filter(pk=alice.pk).update(is_active=False)
    elif what == "turned off":
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"share_link_days": 0}))
    else:
        Evaluation.objects.all().delete()


@pytest.mark.parametrize("what", ["time", "revoked", "maker left", "maker disabled", "turned off", "deleted"])
def test_a_link_that_has_ended_looks_like_one_that_never_was(
    what: str, alice: User, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = link_to(alice, evaluation)
    assert Client().get(path).status_code == 200
    ends_by(what, ShareLink.objects.get(), alice, monkeypatch)
    gone, wrong = Client().get(path), Client().get("/shared/wrong")
    assert (gone.status_code, gone.content) == (404, wrong.content)


def test_guesses_are_slowed_down_and_good_links_are_not(alice: User, evaluation: Evaluation) -> None:
    path, browser = link_to(alice, evaluation), Client()
    answers = [browser.get(f"/shared/guess-{number}").status_code for number in range(MOST_WRONG + 1)]
    assert answers == [404] * MOST_WRONG + [429]
    assert browser.get(path).status_code == 200


def test_the_secret_is_stored_nowhere_and_openings_are_counted(alice: User, evaluation: Evaluation) -> None:
    path = link_to(alice, evaluation)
    Client().get(path)
    Client().get(path, headers={"HX-Request": "true", "HX-Target": "results"})
    row = ShareLink.objects.get()
    assert path.rpartition("/")[2] not in str([*ShareLink.objects.values_list()])
    assert row.opened == 1
    assert row.opened_at is not None


def test_members_make_and_revoke_links_and_readers_do_not(evaluation: Evaluation) -> None:
    team = make_owner("lab", members=[make_user("mia")], role=Role.MEMBER)
    Membership.objects.create(owner=team, user=make_user("rea"), role=Role.READER)
    Evaluation.objects.update(owner=team)
    body = {"evaluations": [str(evaluation.pk)], "days": 1}
    mia, rea = (bearer(make_token(User.objects.get(username=name))) for name in ("mia", "rea"))
    post = {"content_type": "application/json"}
    assert Client().post("/api/v1/share-links", body, headers=rea, **post).status_code == 403
    made = Client().post("/api/v1/share-links", body, headers=mia, **post).json()
    assert Client().delete(f"/api/v1/share-links/{made['link']['id']}", headers=rea).status_code == 403
    listed = Client().get(f"/api/v1/share-links?of_evaluation={evaluation.pk}", headers=mia).json()["items"]
    assert [item["id"] for item in listed] == [made["link"]["id"]]
    assert "url" not in listed[0]
    entry = AuditEntry.objects.get(action="made a share link")
    assert (entry.owner_slug, entry.subject) == ("lab", made["link"]["id"])


def test_a_link_lasts_no_longer_than_the_operator_lets_it(alice: User, evaluation: Evaluation) -> None:
    headers, most = bearer(make_token(alice)), 90
    for time in ({"days": most + 1}, {"expires_at": "2020-01-01T00:00:00Z"}):
        body = {"evaluations": [str(evaluation.pk)], **time}
        answer = Client().post("/api/v1/share-links", body, content_type="application/json", headers=headers)
        assert answer.status_code == 422, answer.content


def test_the_page_makes_a_link_and_shows_it_once(alice: User, evaluation: Evaluation) -> None:
    browser = Client()
    browser.force_login(alice)
    address = f"/evaluations/{evaluation.pk}/links"
    html = browser.post(address, {"days": "30", "note": "for the reviewers"}).content.decode()
    (path,) = set(re.findall(r"/shared/[\w-]{43}", html))
    assert Client().get(path).status_code == 200
    again = browser.get(address).content.decode()
    assert "for the reviewers" in again
    assert path not in again
    browser.post(f"/settings/links/{ShareLink.objects.get().pk}/revoke", {"back": address})
    assert Client().get(path).status_code == 404


def test_reading_through_a_link_has_a_limit(
    alice: User, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, browser = link_to(alice, evaluation), Client()
    monkeypatch.setattr(shared_pages, "MOST", 2)
    answers = [browser.get(path) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2]["Retry-After"]
