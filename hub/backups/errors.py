"""The errors of backups.

HubError
|-- Conflict
|   |-- BackupRefused   it would lose or expose something; the hint says how to do it anyway
|   `-- WrongKey        the keys of this hub, or the identity file, do not open it
`-- Damaged             a file at the destination is missing, cut off, or not what was written; it is named
"""

from __future__ import annotations

from hub.core.errors import Conflict, HubError


class BackupRefused(Conflict):
    """The operator must explicitly allow this."""

    code = "backup_refused"


class WrongKey(Conflict):
    """The available keys are not the right ones."""

    code = "backup_wrong_key"


class Damaged(HubError):
    """A file of a backup is not what was written."""

    code = "backup_damaged"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}", hint="restore another backup, or this file from a copy of the destination"
        )
        self.path = path
        self.problem = problem
