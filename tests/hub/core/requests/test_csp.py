"""The Content-Security-Policy of every answer."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/login", "/healthz", "/api/v1/me", "/nothing"])
def test_every_answer_has_a_strict_policy(client: Client, path: str) -> None:
    policy = client.get(path)["Content-Security-Policy"]
    for directive in ("default-src 'self'", "script-src 'self'", "object-src 'none'", "frame-ancestors 'none'"):
        assert directive in policy
    assert "unsafe" not in policy
