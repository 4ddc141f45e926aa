"""Writes of the backups app: backing up, pruning, verifying, restoring."""

from hub.backups.services.backing_up import back_up
from hub.backups.services.pruning import prune
from hub.backups.services.restoring import restore
from hub.backups.services.verifying import verify

__all__ = ["back_up", "prune", "restore", "verify"]
