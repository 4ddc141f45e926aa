"""What an operator reads when a command cannot work."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from hub.core.commands import HubCommand


class Lost(HubCommand):
    """Meets a database that is away."""

    def handle(self, *args: Any, **options: Any) -> None:
        raise OperationalError("connection refused")


def test_a_database_that_is_away_is_named_without_a_traceback() -> None:
    with pytest.raises(CommandError, match=r"HUB_DATABASE_URL(?s:.*)connection refused"):
        call_command(Lost())
