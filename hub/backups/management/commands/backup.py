"""`manage.py backup`: back up the hub, list backups, verify one, make an identity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from envhub.packaging.private_file import write_private

from hub.backups.destinations import open_destination
from hub.backups.errors import Damaged
from hub.backups.identities import STDIN, new_identity
from hub.backups.manifest import Manifest, backup_ids, read_manifest
from hub.backups.repository import open_repository
from hub.backups.services import back_up, verify
from hub.backups.services.backing_up import Keep
from hub.core.commands import HubCommand

MOST_NAMED = 20
MADE_WITHOUT_LOST = 3  # exit status: there is a backup, without blobs that the hub itself has lost
PLAIN_WARNING = (
    "NOT ENCRYPTED: anyone who can read the destination gets all of the users' data, including the ciphertexts of "
    "their secrets and the hashes of their tokens"
)


class Command(HubCommand):
    """The command with its four actions; without an option, it makes a backup."""

    help = "Back up the database and all blobs to a directory or s3://BUCKET/PREFIX; only new data is copied."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the command's arguments."""
        parser.add_argument("destination", nargs="?", default="", help="default: HUB_BACKUP_DESTINATION")
        parser.add_argument("id", nargs="?", default="", help="with --verify: which one; default: the newest")
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--list", action="store_true", help="show the backups that are there")
        action.add_argument("--verify", action="store_true", help="read all files of a backup; status 1 on damage")
        action.add_argument("--new-identity", type=Path, metavar="FILE", help="make a key pair of age (`-`: print it)")
        parser.add_argument(
            "--identity", type=Path, metavar="FILE", help="with --verify: also decrypt, and compare hashes"
        )
        parser.add_argument("--keep", type=int, metavar="N", help="afterwards only the newest N backups stay")
        parser.add_argument("--keep-days", type=float, metavar="DAYS", help="and those that are not older")
        parser.add_argument("--no-encryption", action="store_true", help="although others may read the destination")
        parser.add_argument("--json", action="store_true", help="the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the chosen action."""
        if options["new_identity"]:
            return self._make_identity(options["new_identity"])
        if options["id"] and not options["verify"]:
            raise CommandError("an id requires --verify; to restore a backup, use `manage.py restore`")
        if options["list"]:
            return self._list(options)
        return self._verify(options) if options["verify"] else self._back_up(options)

    def _say(self, line: str) -> None:
        self.stderr.write(line)

    def _make_identity(self, path: Path) -> None:
        if path.exists():
            raise CommandError(f"{path} already exists; overwriting it would lose the backups that only it can open")
        content, recipient = new_identity()
        if path == STDIN:
            self.stdout.write(content, ending="")
        else:
            write_private(path, content.encode())
        self._say(f'HUB_BACKUP_RECIPIENTS=["{recipient}"]')
        self._say(
            "Keep two copies of the identity, neither on this host nor with the backups: nothing else opens them."
        )

    def _back_up(self, options: dict[str, Any]) -> None:
        recipients = settings.HUB.backup_recipients
        if options["no_encryption"]:
            recipients = []
            self._say(PLAIN_WARNING)
        elif not recipients:
            raise CommandError(
                "no recipients: set HUB_BACKUP_RECIPIENTS (`manage.py backup --new-identity FILE` makes a key pair), "
                "or choose --no-encryption"
            )
        if (options["keep"] is not None and options["keep"] < 1) or (options["keep_days"] or 0) < 0:
            raise CommandError("--keep must be at least 1, --keep-days at least 0")
        made = back_up(
            destination=open_destination(options["destination"]),
            recipients=recipients,
            keep=Keep(options["keep"], options["keep_days"]),
            now=timezone.now(),
            say=self._say,
        )
        self._tell([made], options)
        if made.lost:
            raise CommandError(
                f"{made.id} is made, but the hub itself has lost {len(made.lost)} blobs (LOST, above): see its storage",
                returncode=MADE_WITHOUT_LOST,
            )

    def _list(self, options: dict[str, Any]) -> None:
        repository = open_repository(open_destination(options["destination"]))
        found, problems = [], []
        for backup in backup_ids(repository)[0]:
            try:
                found.append(read_manifest(repository, backup))
            except Damaged as error:
                problems.append(error.message)
        self._tell(found, options)
        if problems:
            raise CommandError("\n".join(problems))

    def _verify(self, options: dict[str, Any]) -> None:
        destination, identity = open_destination(options["destination"]), options["identity"]
        found, problems = verify(destination=destination, backup=options["id"], identity=identity, say=self._say)
        self._tell([found], options)
        if problems:
            shown = "\n".join(problems[:MOST_NAMED])
            raise CommandError(
                f"{found.id} is damaged in {len(problems)} places:\n{shown}\n"
                "where this hub still has the bytes: delete these files there, and back up again"
            )
        self._say(
            "whole: every file has its seal" + (", every blob its hash" if identity or not found.recipients else "")
        )

    def _tell(self, found: list[Manifest], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps([manifest.model_dump(mode="json") for manifest in found], indent=2))
            return
        for one in found:
            size = f"{one.blobs} blobs ({one.added} new), {one.blob_bytes / 1e9:.2f} GB"
            lost = f", {len(one.lost)} LOST" if one.lost else ""
            kind = "encrypted" if one.recipients else "PLAIN"
            self.stdout.write(f"{one.id}  {one.rows} rows, {size}{lost}  {kind}  release {one.release}")
