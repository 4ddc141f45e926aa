"""Client calls for the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.accounts.audit import AuditEntryView
from envhub.protocol.base import Page


@dataclass(frozen=True)
class AuditFilter:
    """Which entries. Times are days (`2026-01-31`, UTC) or ISO 8601."""

    actor: str | None = None
    action: str | None = None  # in the words of the log
    token: str | None = None  # its first characters, as entries have them
    since: str | None = None
    until: str | None = None


EVERYTHING = AuditFilter()


class Audit:
    """Calls under /audit."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def list(self, *, owner: str | None = None, only: AuditFilter = EVERYTHING) -> Iterator[AuditEntryView]:
        """List the changes made for `owner`, newest first. None: for the caller; for administrators, all changes."""
        return iterate(self._hub, "/audit", Page[AuditEntryView], owner=owner, **asdict(only))

    def export(self, target: Path, *, owner: str | None = None, only: AuditFilter = EVERYTHING) -> Path:
        """Save the same entries to the file `target`, one JSON object per line."""
        return self._hub.save("/audit/export", target, owner=owner, **asdict(only))
