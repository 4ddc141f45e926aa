"""What can be wrong with a backup.

HubError
|-- Conflict
|   |-- BackupRefused   it would lose or expose something; the hint says how to do it all the same
|   `-- WrongKey        the keys of this hub, or the identity file, do not open it
`-- Damaged             a file at the destination is missing, cut off, or not what was written; it is named
"""

from __future__ import annotations

from hub.core.errors import Conflict, HubError


class BackupRefused(Conflict):
    """Not without another word of the operator."""

    code = "backup_refused"


class WrongKey(Conflict):
    """The keys that are here are others."""

    code = "backup_wrong_key"


class Damaged(HubError):
    """A file of a backup is not what was written."""

    code = "backup_damaged"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}", hint="restore another backup, or this file from a copy of the destination"
        )
        self.path = path
