"""What evaluations cost, by the prices that their models had when they began."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.evals.rollouts import Usage
from envhub.protocol.models.money import dollars

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.catalog.services import register_endpoint
from hub.evals.forecasts.outlook import outlook
from hub.evals.models import Evaluation
from hub.evals.services import create_evaluation
from hub.evals.wire import evaluation_summary
from hub.runs.usage import usage_of
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import create_endpoint, endpoint_request
from tests.factories.evals import create_hosted, make_config, make_record, start, store
from tests.factories.registry import create_ready_version
from tests.factories.training_runs import create_trainable

pytestmark = pytest.mark.django_db
USED, JUDGED = Usage(prompt_tokens=1_000_000, completion_tokens=100_000), Usage(prompt_tokens=200_000)


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def priced(user: User, name: str, of_prompt: float | None, of_output: float | None) -> Model:
    request = endpoint_request(name).model_copy(update={"input_price": of_prompt, "output_price": of_output})
    return register_endpoint(user=user, owner=user.owner, request=request)


def evaluated(user: User, **changes: object) -> Evaluation:
    config = make_config("alice/tiny-env", "alice/paid", **changes)
    found = create_evaluation(user=user, owner=user.owner, config=config)
    start(found)
    store(found, [make_record(usage=USED, judge_usage=JUDGED)])
    return found


def cost(evaluation: Evaluation) -> float | None:
    evaluation.refresh_from_db()
    return evaluation_summary(evaluation).cost


def test_an_evaluation_costs_what_its_model_did_when_it_began(alice: User) -> None:
    create_ready_version(alice)
    priced(alice, "paid", 2.0, 10.0)
    evaluation = evaluated(alice)
    assert cost(evaluation) == pytest.approx(2.0 + 1.0)
    priced(alice, "paid", 200.0, 1000.0)
    assert cost(evaluation) == pytest.approx(3.0)


def test_judges_cost_their_own_price_as_far_as_they_agree(alice: User) -> None:
    create_ready_version(alice)
    for name, price in (("paid", 2.0), ("cheap", 5.0), ("alike", 5.0), ("dear", 50.0)):
        priced(alice, name, price, 10.0)
    agreed = evaluated(alice, judges={"a": "alice/cheap", "b": "alice/alike"})
    differ = evaluated(alice, judges={"a": "alice/cheap", "b": "alice/dear"})
    assert (cost(agreed), cost(differ)) == (pytest.approx(4.0), pytest.approx(3.0))


def test_what_has_no_price_has_no_cost(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    store(evaluation, [make_record(usage=USED)])
    assert cost(evaluation) is None
    (used,) = usage_of([alice.owner], now=timezone.now())
    assert (used.cost, [one.model for one in used.models]) == (0.0, ["alice/stub"])


def test_a_price_stays_when_a_model_is_saved_without_one(alice: User) -> None:
    priced(alice, "paid", 2.0, 10.0)
    model = priced(alice, "paid", None, None)
    assert (model.input_price, model.output_price) == (2.0, 10.0)


def test_files_that_replace_an_endpoint_have_no_price(alice: User) -> None:
    priced(alice, "paid", 2.0, 10.0)
    model = create_trainable(alice.owner, "paid")
    assert (model.input_price, model.output_price) == (None, None)


def test_one_price_without_the_other_is_refused(alice: User, client: Client) -> None:
    body = endpoint_request("paid").model_dump(mode="json") | {"input_price": 2.0}
    refused = client.put(
        "/api/v1/models/alice/paid", body, content_type="application/json", headers=bearer(make_token(alice))
    )
    assert refused.status_code == 422
    assert "both prices" in refused.content.decode()


def test_usage_tells_tokens_and_costs_by_model(alice: User) -> None:
    create_ready_version(alice)
    priced(alice, "paid", 2.0, 10.0)
    create_endpoint(alice, "free")
    for _ in range(2):
        evaluated(alice)
    (used,) = usage_of([alice.owner], now=timezone.now())
    (model,) = used.models
    assert (model.model, model.prompt_tokens, model.completion_tokens) == ("alice/paid", 2_400_000, 200_000)
    assert model.cost == used.cost == pytest.approx(6.0)


def test_pages_tell_the_cost(alice: User, client: Client) -> None:
    create_ready_version(alice)
    priced(alice, "paid", 2.0, 10.0)
    evaluation = evaluated(alice)
    client.force_login(alice)
    for path in (f"/evaluations/{evaluation.pk}", f"/evaluations/{evaluation.pk}/rollouts/0/0", "/settings/usage"):
        assert "$3.00" in client.get(path).content.decode(), path
    row = client.get(f"/api/v1/evaluations/{evaluation.pk}/rollouts", headers=bearer(make_token(alice))).json()
    assert row["items"][0]["cost"] == pytest.approx(3.0)


def test_more_examples_are_said_to_cost_what_these_did(alice: User) -> None:
    create_ready_version(alice)
    priced(alice, "paid", 2.0, 10.0)
    config = make_config("alice/tiny-env", "alice/paid")
    evaluation = create_evaluation(user=alice, owner=alice.owner, config=config)
    start(evaluation)
    store(evaluation, [make_record(0, n, 1.0, usage=USED) for n in range(2)] + [make_record(1, 0, 0.0, usage=USED)])
    evaluation.refresh_from_db()
    found = outlook(evaluation)
    assert found.power is not None
    assert found.cost == pytest.approx(3.0 * config.rollouts_per_example * found.power.needed)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0, "$0"), (0.00001, "< $0.0001"), (0.0042, "$0.0042"), (1.234, "$1.23"), (12345.6, "$12,346")],
)
def test_dollars_are_short(value: float | None, text: str) -> None:
    assert dollars(value) == text
