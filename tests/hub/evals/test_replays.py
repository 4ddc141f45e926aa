"""A replay is an evaluation of one example that begins as a stored rollout did: what is refused, told and shown."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.packaging.asked import digest
from envhub.packaging.calls import shortened
from envhub.packaging.conversation import conversation
from envhub.protocol.base import Json
from envhub.protocol.evals.replays import Replay, Replayed
from envhub.protocol.evals.rollouts import Turn
from envhub.protocol.placing.abilities import REPLAY

from hub.accounts.models import User
from hub.core.errors import HubError, Invalid, NotFound
from hub.evals.forecasts.outlook import outlook
from hub.evals.models import Evaluation
from hub.evals.replays import Sampled, calls_by_message, replays_of
from hub.evals.reports.figures import measured_lines
from hub.evals.reports.fingerprints import evaluation_fingerprint
from hub.evals.services import cancel_evaluation, delete_evaluation, resume_evaluation
from hub.training.pages.model import measured
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_record, start, store
from tests.fakes.reporter import Reporter

pytestmark = pytest.mark.django_db
EXAMPLE = 7


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def client(ada: User) -> Client:
    found = Client()
    found.force_login(ada)
    return found


def turn(index: int, **more: Json) -> Turn:
    fields = {
        "index": index,
        "protocol": "chat",
        "model": "m",
        "request": {"messages": [{"role": "user", "content": f"ask {index}"}]},
        "response": {"choices": [{"message": {"role": "assistant", "content": f"say {index}"}}]},
    }
    return Turn.model_validate(fields | more)


GONE_ON = {"messages": [{"role": "user", "content": f"ask {index}"} for index in (0, 3)]}
WHOLE = (turn(0), turn(1, route="judge"), turn(2, status=400, error="too long"), turn(3, request=GONE_ON), turn(4))
TURNS = shortened(WHOLE)


@pytest.fixture
def before(ada: User) -> Evaluation:
    """An evaluation with one rollout, of three answered calls."""
    found = create_hosted(ada, num_examples=9)
    start(found)
    said = [{"role": "assistant", "content": f"say {index}"} for index in (0, 3, 4)]
    store(found, [make_record(EXAMPLE, 1, completion=said, turns=TURNS)])
    return found


def replay(user: User, before: Evaluation, calls: int = 2, **more: object) -> Evaluation:
    told = Replay(evaluation=str(before.pk)[:20], example=EXAMPLE, rollout=1, calls=calls)
    return create_hosted(user, rollouts_per_example=3, replay=told, **more)


def test_a_replay_is_of_one_example_and_on_no_leaderboard(ada: User, before: Evaluation) -> None:
    found = replay(ada, before)
    assert (found.planned, found.config["num_examples"], found.replay_of) == (3, 1, before.pk)
    assert found.config["replay"]["evaluation"] == str(before.pk)
    start(found)
    assert found.run is not None
    assert [before.run and before.run.ability, found.run.ability] == ["", REPLAY]
    reporter = Reporter(found, found.run, EXAMPLE + 1)
    assert [(one.first, one.stop) for one in reporter.report(wants=9).ranges] == [(EXAMPLE, EXAMPLE + 1)]
    store(found, [make_record(EXAMPLE)])
    found.refresh_from_db()
    assert found.board == ""


def test_strangers_private_replays_do_not_push_ones_own_off_the_list(
    ada: User, before: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.evals.replays.MOST_LISTED", 1)
    own = replay(ada, before)
    mallory, hidden = make_user("mallory"), replay(ada, before)
    Evaluation.objects.filter(pk=hidden.pk).update(owner=mallory.owner, created_by=mallory, visibility="private")
    assert replays_of(ada, before.pk, example=EXAMPLE, rollout=1) == [own]


def test_a_resumed_replay_runs_its_example_and_no_other(ada: User, before: Evaluation) -> None:
    found = replay(ada, before)
    cancel_evaluation(user=ada, evaluation=found)
    found = resume_evaluation(user=ada, evaluation=Evaluation.objects.get(pk=found.pk))
    start(found)
    assert found.run is not None
    assert found.run.ability == REPLAY
    reporter = Reporter(found, found.run, EXAMPLE + 1)
    assert [(one.first, one.stop) for one in reporter.report(wants=9).ranges] == [(EXAMPLE, EXAMPLE + 1)]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"calls": 4}, Invalid, "has 3 answered model calls, not 4"),
        ({"rollout": 0}, NotFound, "no rollout 0"),
        ({"rollout": 2**31 - 1}, NotFound, "no rollout"),
        ({"evaluation": "0" * 32}, NotFound, "does not exist"),
        ({"evaluation": "no id"}, NotFound, "does not exist"),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    ada: User, before: Evaluation, changes: dict[str, Json], error: type[HubError], words: str
) -> None:
    told = Replay(evaluation=str(before.pk), example=EXAMPLE, rollout=1, calls=1).model_copy(update=changes)
    with pytest.raises(error, match=words):
        create_hosted(ada, replay=told)


def test_only_rollouts_of_the_environment_that_one_may_see_are_replayed(ada: User, before: Evaluation) -> None:
    told = Replay(evaluation=str(before.pk), example=EXAMPLE, rollout=1, calls=1)
    with pytest.raises(Invalid, match="another environment"):
        create_hosted(ada, name="another", replay=told)
    with pytest.raises(NotFound):
        create_hosted(make_user("mallory"), replay=told)


def test_its_run_and_nobody_else_is_told_the_stored_answers(ada: User, before: Evaluation, client: Client) -> None:
    found = replay(ada, before)
    address = f"/api/v1/evaluations/{found.pk}/replayed"
    told = client.get(address, headers={"Authorization": f"Bearer {start(found)}"}).json()
    assert [call["response"]["choices"][0]["message"]["content"] for call in told["calls"]] == ["say 0", "say 3"]
    assert TURNS[3].continues is not None
    assert told["calls"][1]["asked"] == digest(GONE_ON)
    assert told["example_hash"] == f"{EXAMPLE:064x}"
    assert client.get(address, headers=bearer(make_token(ada))).status_code == 401
    another = start(create_hosted(ada))
    assert client.get(address, headers={"Authorization": f"Bearer {another}"}).status_code == 404


def test_a_rollout_that_was_deleted_meanwhile_is_said_to_be(ada: User, before: Evaluation, client: Client) -> None:
    found = replay(ada, before)
    Evaluation.objects.filter(pk=before.pk).update(state="succeeded")
    delete_evaluation(user=ada, evaluation=before)
    headers = {"Authorization": f"Bearer {start(found)}"}
    reply = client.get(f"/api/v1/evaluations/{found.pk}/replayed", headers=headers)
    assert (reply.status_code, "has been deleted" in reply.json()["error"]["message"]) == (404, True)
    assert "a rollout that you cannot see" in client.get(f"/evaluations/{found.pk}").content.decode()


def test_a_replay_is_no_measurement_of_its_model(ada: User, before: Evaluation) -> None:
    first, second = replay(ada, before, calls=1), replay(ada, before, calls=2)
    for found in (first, second):
        start(found)
        store(found, [make_record(EXAMPLE, at, reward) for at, reward in enumerate((0.0, 1.0, 1.0))])
        found.refresh_from_db()
    assert outlook(first).forecast is None
    (shown,) = measured(ada, "ada/stub", "")
    assert shown.own is not None
    assert shown.own.id == str(before.pk)
    assert evaluation_fingerprint(first).sha256 != evaluation_fingerprint(second).sha256
    assert any(name == "replay" for name, _ in measured_lines(first, inside=True))


def test_the_reader_offers_a_replay_at_every_answer(before: Evaluation, client: Client) -> None:
    page = client.get(f"/evaluations/{before.pk}/rollouts/{EXAMPLE}/1").content.decode()
    for calls in range(3):
        assert page.count(f"?replay={before.pk}/{EXAMPLE}/1/{calls}") == 2  # in the transcript and at the call
    assert "Replay from here" not in Client().get(f"/evaluations/{before.pk}/rollouts/{EXAMPLE}/1").content.decode()


def test_messages_that_nobody_can_match_with_calls_offer_none() -> None:
    unmatched, matched = make_record(completion=None, turns=TURNS), make_record(turns=TURNS[:1])
    assert calls_by_message(unmatched, conversation(unmatched)) == {}
    assert calls_by_message(matched, conversation(matched)) == {1: Sampled(0, replayed=False)}


def test_the_form_starts_a_replay_with_the_settings_of_its_evaluation(before: Evaluation, client: Client) -> None:
    address = f"/environments/ada/tiny-env/evaluate?replay={before.pk}/{EXAMPLE}/1/2"
    page = client.get(address)
    assert "first 2 model calls" in page.content.decode()
    fields = {field.name: field.value for field in page.context["main"] if field.name != "visibility"}
    assert "num_examples" not in fields
    started = client.post("/environments/ada/tiny-env/evaluate", fields | {"replay": f"{before.pk}/{EXAMPLE}/1/2"})
    found = Evaluation.objects.latest("pk")
    assert (started.status_code, found.replay_of, found.config["replay"]["calls"]) == (302, before.pk, 2)
    page = client.get(f"/evaluations/{before.pk}/rollouts/{EXAMPLE}/1").content.decode()
    assert f'href="/evaluations/{found.pk}"' in page  # among its replays


@pytest.mark.parametrize("text", ["x", "a/b/c/d", "1/2/3"])
def test_a_wrong_address_of_a_rollout_is_refused(client: Client, before: Evaluation, text: str) -> None:
    reply = client.get(f"/environments/ada/tiny-env/evaluate?replay={text}")
    assert (reply.status_code, "EVALUATION/EXAMPLE/ROLLOUT/CALLS" in reply.content.decode()) == (422, True)


def test_a_replayed_rollout_says_where_its_environment_did_otherwise(
    ada: User, before: Evaluation, client: Client
) -> None:
    found = replay(ada, before)
    start(found)
    turns = (turn(0, replayed=Replayed.SAME), turn(1, replayed=Replayed.CHANGED), turn(2))
    store(found, [make_record(EXAMPLE, 0, turns=turns)])
    page = client.get(f"/evaluations/{found.pk}/rollouts/{EXAMPLE}/0").content.decode()
    assert "its first 2 model calls got their recorded answers" in page
    assert 'From <a href="#call-1">call 1</a>' in page
    assert f'href="/evaluations/{found.pk}/rollouts/{EXAMPLE}/0/original"' in page


def test_it_stands_beside_its_original_whose_squares_are_the_attempts_of_the_replay(
    ada: User, before: Evaluation, client: Client
) -> None:
    found = replay(ada, before)
    start(found)
    same = [{"role": "assistant", "content": f"say {index}"} for index in (0, 3, 4)]
    store(found, [make_record(EXAMPLE, 0, completion=same), make_record(EXAMPLE, 2, completion=same[:2])])
    rollouts = f"/evaluations/{found.pk}/rollouts/{EXAMPLE}"
    columns = client.get(f"{rollouts}/2/original").context["columns"]
    assert (columns[0].side.address, columns[0].side.squares) == (f"/evaluations/{before.pk}/rollouts/{EXAMPLE}/1", ())
    assert [address for address, _ in columns[1].side.squares] == [f"{rollouts}/0/original", f"{rollouts}/2/original"]
    assert (columns[1].as_a, columns[1].differs_at) == (False, None)
    assert client.get(f"{rollouts}/0/original").context["columns"][1].as_a
    assert client.get(f"{rollouts}/1/original").status_code == 404
    assert client.get(f"/evaluations/{before.pk}/rollouts/{EXAMPLE}/1/original").status_code == 422
