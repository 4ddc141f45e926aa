"""A version that needs a secret to be loaded says so, instead of looking broken."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.registry.models import Environment, Version
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db


def _page(check: dict[str, object], path: str = "") -> str:
    version = create_ready_version()
    Version.objects.filter(pk=version.pk).update(checks=[{"name": "load", "passed": False, "summary": "so"} | check])
    owner = version.environment.owner.slug
    Environment.objects.update(visibility="public", latest=version)
    return Client().get(f"/environments/{owner}/tiny-env{path}").content.decode()


@pytest.mark.parametrize("path", ["", "/versions/0.1.0"])
def test_the_page_names_it_and_grants_it_in_the_command(path: str) -> None:
    page = _page({"needs": [{"kind": "secret", "name": "JUDGE_KEY"}]}, path)
    assert "secret JUDGE_KEY" in page
    assert "needs 1" in page
    assert "-n 20 -r 4 --secret JUDGE_KEY" in page
    assert "check failed" not in page
    assert 'aria-label="failed"' not in page


def test_a_check_that_failed_still_says_so() -> None:
    page = _page({})
    assert "1 check failed" in page
    assert "--secret" not in page
