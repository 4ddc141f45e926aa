"""What the hub's own `manage.py` commands share."""

from __future__ import annotations

from django.core.management.base import BaseCommand


class HubCommand(BaseCommand):
    """Starts without Django's checks of models and URLs: they judge the code, not this machine, and `make check` runs
    them. Half a second of every start.
    """

    requires_system_checks: list[str] = []
