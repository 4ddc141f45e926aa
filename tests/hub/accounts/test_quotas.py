"""Quotas of one owner: what applies, who sets them, that everything keeps to them and shows them."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.quotas import QuotaRequest
from envhub.protocol.accounts.users import Scope
from envhub.protocol.runs import RunKind

from hub.accounts.models import Owner, OwnerQuota, User
from hub.accounts.quotas import limits_of
from hub.accounts.services import set_quota
from hub.audit.models import AuditEntry
from hub.core.errors import Conflict
from hub.runs.errors import NotClaimable
from hub.runs.models import OwnerUsage
from hub.runs.placing.waiting import waiting_reasons
from hub.runs.services import claim_run
from hub.storage.quota import QuotaExceeded, check_room
from tests.envhub.cli.conftest import MakeCli, in_process, make_cli  # noqa: F401  # fixtures
from tests.factories.accounts import bearer, make_owner, make_token, make_user
from tests.factories.evals import create_hosted
from tests.factories.runs import hold_run, make_run, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Owner:
    return make_user("alice").owner


@pytest.fixture
def root() -> User:
    return make_user("root-user", is_superuser=True)


def own(owner: Owner, **figures: Any) -> None:
    set_quota(owner=owner, request=QuotaRequest(**figures))


def test_what_is_not_set_is_the_hubs_and_nought_is_no_limit(alice: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    of_all = {"owner_gpu_hours": 5.0, "owner_tokens": 100, "owner_running": {RunKind.EVAL: 2}}
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=of_all))
    own(alice, gpu_hours=0, tokens=7)
    found = limits_of(alice.pk)
    assert (found.gpu_hours, found.tokens, found.storage_gb) == (None, 7, settings.HUB.owner_quota_gb)
    assert [found.running_of(kind) for kind in (RunKind.EVAL, RunKind.TRAIN)] == [2, None]
    own(alice, running=3)
    assert [limits_of(alice.pk).running_of(kind) for kind in (RunKind.EVAL, RunKind.TRAIN)] == [3, 3]
    own(alice, running=0)
    assert limits_of(alice.pk).running_of(RunKind.EVAL) is None
    own(alice)
    assert not OwnerQuota.objects.exists()


def test_runs_at_once_keep_to_it_and_say_so(alice: Owner) -> None:
    own(alice, running=1)
    hold_run(make_run(owner=alice))
    waiting = make_run(owner=alice)
    with pytest.raises(NotClaimable):
        claim_run(run_id=str(waiting.pk), worker=make_worker(), now=timezone.now())
    assert waiting_reasons([waiting], now=timezone.now())[waiting.pk] == "alice has 1 of at most 1 evaluations running"


def test_tokens_and_storage_keep_to_it(alice: Owner) -> None:
    own(alice, tokens=10, storage_gb=0.000001)
    OwnerUsage.objects.create(owner=alice, day=timezone.now().date(), kind="serve", prompt_tokens=10)
    assert alice.user is not None
    with pytest.raises(QuotaExceeded):
        check_room(holder=alice.pk, size=1001)
    check_room(holder=make_user("bob").owner.pk, size=1001)
    own(alice, tokens=10)
    with pytest.raises(Conflict, match="10 of 10 tokens"):
        create_hosted(alice.user)


def test_an_administrator_sets_it_over_rest_and_its_owner_reads_that(alice: Owner, root: User) -> None:
    headers = bearer(make_token(root, Scope.READ, Scope.WRITE, Scope.ADMIN))
    put = Client().put("/api/v1/quotas/alice", {"gpu_hours": 4}, "application/json", headers=headers)
    assert put.json()["gpu_hours"] == 4
    listed = Client().get("/api/v1/quotas", headers=headers).json()["quotas"]
    assert [(one["owner"], one["gpu_hours"], one["tokens"]) for one in listed] == [("alice", 4, None)]
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.owner_slug) == ("root-user", "set an owner's quota", "alice")
    wrong = Client().put("/api/v1/quotas/alice", {"tokens": -1}, "application/json", headers=headers)
    assert wrong.status_code == 422
    assert alice.user is not None
    mine = bearer(make_token(alice.user))
    assert Client().put("/api/v1/quotas/alice", {}, "application/json", headers=mine).status_code == 403
    assert Client().get("/api/v1/usage", headers=mine).json()["owners"][0]["gpu_hours_limit"] == 4


def test_the_page_sets_changes_and_forgets_it(alice: Owner, root: User, client: Client) -> None:
    client.force_login(root)
    reply = client.post("/administration/quotas", {"owner": "alice", "running": "2", "storage_gb": "1.5"}, follow=True)
    assert "alice now has a quota of its own" in reply.text
    assert ">1.5 GB</td>" in reply.text
    assert (
        'name="running" inputmode="numeric" maxlength="10" autocomplete="off" value="2"'
        in client.get("/administration/quotas?owner=alice").text
    )
    wrong = client.post("/administration/quotas", {"owner": "alice", "tokens": "many"})
    assert (wrong.status_code, 'value="many"' in wrong.text) == (422, True)
    assert client.post("/administration/quotas", {"owner": "nobody"}).status_code == 404
    assert [entry.action for entry in AuditEntry.objects.all()] == ["set an owner's quota"]
    assert "follows the hub" in client.post("/administration/quotas", {"owner": "alice"}, follow=True).text
    assert not OwnerQuota.objects.exists()


def test_pages_of_usage_and_storage_show_it(alice: Owner, client: Client) -> None:
    assert alice.user is not None
    team = make_owner("lab", members=[alice.user])
    own(alice, running=2, gpu_hours=4, storage_gb=3)
    own(team, storage_gb=0)
    client.force_login(alice.user)
    usage = client.get("/settings/usage").text
    assert "at most 2 of each kind" in usage
    assert "of 4<" in usage
    storage = client.get("/settings/storage").text
    assert "3.0 GB" in storage
    assert "no limit" in storage


def test_a_team_that_goes_takes_its_quota_along() -> None:
    team = make_owner("lab")
    own(team, tokens=1)
    team.delete()
    assert not OwnerQuota.objects.exists()


def test_the_command_changes_one_figure_and_keeps_the_others(make_cli: MakeCli, alice: Owner, root: User) -> None:  # noqa: F811
    hub = make_cli(root)
    hub.environ["HUB_TOKEN"] = make_token(root, Scope.READ, Scope.WRITE, Scope.ADMIN)
    hub("quota", "set", "alice", "--gpu-hours", "4", "--running", "2")
    assert hub.json("quota", "set", "alice", "--running", "0")["gpu_hours"] == 4
    assert "no limit" in hub("quota", "list").stdout
    assert hub.json("quota", "set", "alice", "--reset")["gpu_hours"] is None
    assert hub.json("quota", "list") == []
    assert "nothing to set" in hub("quota", "set", "alice", code=2).stderr
