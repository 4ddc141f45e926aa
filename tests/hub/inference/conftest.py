"""Asynchronous tests use the database in asgiref's thread: its connection must not outlive the test."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.db import connections


async def close_connections() -> None:
    """Close what asgiref's thread has open."""
    await sync_to_async(connections.close_all)()


@pytest.fixture(autouse=True)
async def _no_connection_is_left(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    yield
    if "test_gateway" in str(request.path):
        await close_connections()
