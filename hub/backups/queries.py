"""Reads of what this hub remembers of its backups."""

from __future__ import annotations

from hub.backups.models import LastBackup


def last_backup() -> LastBackup | None:
    """The newest one, at whichever destination."""
    return LastBackup.objects.order_by("-finished_at", "pk").first()
