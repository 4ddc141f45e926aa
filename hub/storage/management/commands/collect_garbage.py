"""`manage.py collect_garbage`: deletes stored bytes that nothing refers to. Run it daily."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from django.utils import timezone

from hub.core.commands import HubCommand
from hub.storage.garbage import note_pass, run_pass
from hub.storage.garbage_pause import is_paused


class Command(HubCommand):
    """Safe at any time: what is in use is protected by the database, what is young is left alone."""

    help = "Delete unreferenced blobs that are older than a day."

    def add_arguments(self, parser: CommandParser) -> None:
        """Arguments."""
        parser.add_argument("--hours", type=float, default=24.0, help="keep what is younger")

    def handle(self, *args: Any, hours: float, **options: Any) -> None:
        """Run."""
        found = run_pass(now=timezone.now(), older_than=timedelta(hours=hours))
        note_pass(found, now=timezone.now())
        self.stdout.write(f"{found.deleted} blobs deleted, {found.deleted_bytes} bytes")
        with transaction.atomic():
            if is_paused(timezone.now()):
                self.stdout.write("a backup is running: what is left goes the next time")
