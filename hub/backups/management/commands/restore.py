"""`manage.py restore`: restores a backup into an empty hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from hub.backups.destinations import open_destination
from hub.backups.services import restore
from hub.backups.services.restoring import Permits
from hub.core.commands import HubCommand


class Command(HubCommand):
    """The command. The hub must be stopped; it may be interrupted and run again."""

    help = "Restore a backup into the empty database and storage that HUB_* names, with the hub stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the command's arguments."""
        parser.add_argument("destination", nargs="?", default="", help="default: HUB_BACKUP_DESTINATION")
        parser.add_argument("id", nargs="?", default="", help="as `backup --list` shows it; default: the newest")
        parser.add_argument(
            "--identity", type=Path, metavar="FILE", help="the private key of an encrypted backup; `-`: standard input"
        )
        parser.add_argument("--overwrite", action="store_true", help="lose what the database holds now")
        parser.add_argument(
            "--lost-keys",
            action="store_true",
            help="the hub's keys are lost: believe the destination, and set the secrets anew",
        )

        parser.add_argument(
            "--skip-damaged", action="store_true", help="leave out blobs that are damaged there, and name them"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Restore a backup, and print which."""
        made = restore(
            destination=open_destination(options["destination"]),
            backup=options["id"],
            identity=options["identity"],
            permits=Permits(**{name: options[name] for name in ("overwrite", "lost_keys", "skip_damaged")}),
            say=self.stderr.write,
        )
        self.stdout.write(
            f"restored {made.id} of {made.created_at:%Y-%m-%d %H:%M} UTC: {made.rows} rows, {made.blobs} blobs"
        )
