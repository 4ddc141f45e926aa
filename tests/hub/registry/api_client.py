"""One JSON call to the hub's API as some user."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from hub.accounts.models import User
from tests.factories.accounts import bearer, make_token


def call(user: User | str | None, method: str, path: str, body: Any = None) -> Any:
    """`user` is a user (a fresh token is made), a token's secret, or nobody."""
    secret = make_token(user) if isinstance(user, User) else user
    client = Client(headers=bearer(secret) if secret else {})
    data = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    return getattr(client, method)(f"/api/v1/{path}", **data)
