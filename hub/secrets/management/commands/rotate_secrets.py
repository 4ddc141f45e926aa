"""`manage.py rotate_secrets`: after a new key was put first in HUB_SECRETS_KEYS; the old keys may go afterwards."""

from __future__ import annotations

from typing import Any

from hub.core.commands import HubCommand
from hub.secrets.second_factors import rotate_second_factors
from hub.secrets.services import rotate_secrets


class Command(HubCommand):
    """Re-encrypts every secret under the newest key."""

    help = "Re-encrypt every secret under the first key of HUB_SECRETS_KEYS."

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate and say how many."""
        self.stdout.write(f"{rotate_secrets() + rotate_second_factors()} values re-encrypted")
