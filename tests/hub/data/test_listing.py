"""The list of what the hub keeps, over HTTP."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.data.models import Snapshot
from tests.factories.accounts import make_user

pytestmark = pytest.mark.django_db


def test_the_list_of_kept_repositories_comes_in_pages_newest_first(client: Client) -> None:
    for number in range(3):
        Snapshot.objects.create(kind="dataset", repository=f"some/data-{number}", revision=f"{number}", pinned=True)
    client.force_login(make_user("alice"))
    first = client.get("/api/v1/data?limit=2").json()
    second = client.get(first["next"]).json()
    named = [[item["repository"] for item in page["items"]] for page in (first, second)]
    assert named == [["some/data-2", "some/data-1"], ["some/data-0"]]
    assert second["next"] is None
