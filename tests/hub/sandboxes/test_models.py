"""Models that a sandbox may call: the token that its worker gets for it, and how that ends."""

from __future__ import annotations

import pytest
from django.utils import timezone
from envhub.protocol.placing.abilities import SANDBOX_MODELS
from envhub.protocol.runs import RunState
from envhub.protocol.sandboxes.sandboxes import SandboxReport, SandboxState

from hub.accounts.models import ApiToken, User
from hub.accounts.queries import live_token
from hub.core.errors import NotAuthenticated, NotFound
from hub.sandboxes.services import note_report, sandbox_payload
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.runs import hold_run
from tests.factories.sandboxes import create_pending

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    found = make_user("alice")
    create_endpoint(found)
    return found


def test_its_worker_gets_a_token_for_models_alone_that_ends_with_it(user: User) -> None:
    sandbox = create_pending(user, models=("alice/stub",), timeout_s=60)
    hold_run(sandbox.run, state=RunState.RUNNING)
    payload = sandbox_payload(sandbox.run)
    assert payload.models == ("alice/stub",)
    token = live_token(payload.model_token, now=timezone.now())
    assert (token.user, token.scopes) == (user, ["inference"])
    assert token.expires_at is not None
    assert (token.expires_at - timezone.now()).total_seconds() < 2 * 3600
    note_report(run=sandbox.run, report=SandboxReport(state=SandboxState.STOPPED), now=timezone.now())
    with pytest.raises(NotAuthenticated):
        live_token(payload.model_token, now=timezone.now())


def test_another_attempt_gets_another_token(user: User) -> None:
    sandbox = create_pending(user, models=("alice/stub",))
    first, second = (sandbox_payload(sandbox.run).model_token for _ in range(2))
    assert first != second
    assert ApiToken.objects.filter(name=f"sandbox {sandbox.pk}").count() == 1


def test_only_workers_that_know_models_get_one_that_has_any(user: User) -> None:
    assert create_pending(user, models=("alice/stub",)).run.ability == SANDBOX_MODELS
    plain = create_pending(user)
    assert (plain.run.ability, sandbox_payload(plain.run).model_token) == ("", "")


def test_a_model_that_one_may_not_see_is_refused(user: User) -> None:
    with pytest.raises(NotFound):
        create_pending(make_user("bob"), models=("alice/stub",))
