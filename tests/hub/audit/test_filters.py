"""The filters of the audit log: on the page, over REST, in the export and in the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test import Client
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import User
from hub.audit.filters import AuditFilter, narrow, read_filter
from hub.audit.models import AuditEntry
from hub.core.errors import Invalid
from hub.core.ids import first_id_at, new_id
from tests import backends
from tests.factories.accounts import bearer, make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> User:
    """An administrator, beside three entries of three days."""
    user = make_user("root-user", is_superuser=True)
    rows = [("ada", "set a secret", "hub_aaaaaa"), ("bob", "made a team", ""), ("ada", "made a team", "hub_bbbbbb")]
    for day, (actor, action, token) in enumerate(rows, 1):
        key = first_id_at(datetime(2026, 3, day, 12, tzinfo=UTC))
        AuditEntry.objects.create(
            id=key, actor=actor, action=action, token_prefix=token, owner_id=user.owner.pk, subject=str(day)
        )
    return user


CASES = [
    ("actor=ada", "31"),
    ("action=made+a+team", "32"),
    ("token=hub_aaaaaa…", "1"),
    ("since=2026-03-02", "32"),
    ("until=2026-03-02", "21"),
    ("until=2026-03-02T12:00:00Z", "1"),
    ("actor=ada&action=made+a+team&since=2026-03-03&until=2026-03-03", "3"),
    ("actor=carol", ""),
]


@pytest.mark.parametrize(("query", "found"), CASES)
def test_the_api_the_export_and_the_page_agree(root: User, query: str, found: str) -> None:
    client, headers = Client(), bearer(make_token(root, Scope.READ, Scope.ADMIN))
    items = client.get(f"/api/v1/audit?{query}", headers=headers).json()["items"]
    exported = client.get(f"/api/v1/audit/export?{query}", headers=headers).getvalue().splitlines()
    client.force_login(root)
    page = client.get(f"/settings/audit?{query}")
    assert "".join(item["subject"] for item in items) == found
    assert "".join(json.loads(line)["subject"] for line in exported) == found
    assert "".join(line.entry.subject for line in page.context["lines"]) == found
    assert ("No matching entries" in page.text) == (not found)


def test_what_is_no_time_is_refused(root: User) -> None:
    for text in ("yesterday", "2026-13-01", "9999-12-31"):
        with pytest.raises(Invalid, match="until is not a time"):
            read_filter({"until": text})
    assert list(narrow(AuditEntry.objects.all(), read_filter({"since": "0001-01-01"}))) != []


@pytest.mark.skipif(backends.BACKEND != "services", reason="SQLite plans otherwise")
@pytest.mark.parametrize(("name", "column"), [("actor", "actor"), ("action", "action"), ("token", "token_prefix")])
def test_a_rare_match_is_found_by_an_index(root: User, name: str, column: str) -> None:
    values = dict.fromkeys(("actor", "action", "token_prefix"), "often")
    owners = [root.owner.pk, *(new_id() for _ in range(60))]
    AuditEntry.objects.bulk_create(
        AuditEntry(id=new_id(), owner_id=owner, **values | {column: f"of {number}"})
        for _ in range(50)
        for number, owner in enumerate(owners)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE audit_auditentry")
    cases = [
        (AuditEntry.objects.filter(owner_id=root.owner.pk), "of 9", f"audit_by_owner_{name}"),
        (AuditEntry.objects.all(), "nowhere", f"audit_by_{name}"),
    ]
    for rows, value, index in cases:
        plan = narrow(rows, AuditFilter(**{name: value})).order_by("-pk")[:51].explain()
        assert index in plan, plan
