"""A hub's storage and a destination for its backups, and what tests do with them; its rows and bytes."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import Model
from django.utils import timezone
from pyrage import x25519

from hub.backups.destinations.interface import Destination
from hub.backups.manifest import Manifest
from hub.backups.services import back_up, restore, verify
from hub.backups.services.backing_up import Keep
from hub.backups.services.restoring import Permits
from hub.registry.models import StoredWheel
from hub.storage.backends.interface import Backend
from hub.storage.models import Blob, GarbagePause
from tests.factories.storage import make_blob

ROOT = Path(__file__).parents[3]
Rows = dict[str, list[tuple[str, ...]]]


@dataclass
class Site:
    """Both, made by the fixtures of conftest."""

    store: Backend
    destination: Destination
    identity: Path
    recipients: tuple[str, ...] = field(default=())
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recipients = self.recipients or (new_identity(self.identity),)

    def back_up(
        self, *, keep: Keep | None = None, now: datetime | None = None, say: Callable[[str], None] | None = None
    ) -> Manifest:
        """A backup of what is there now."""
        return back_up(
            destination=self.destination,
            recipients=self.recipients,
            keep=keep or Keep(),
            now=now or timezone.now(),
            say=say or self.said.append,
        )

    def restore(self, backup: str = "", *, identity: Path | None = None, **permits: bool) -> Manifest:
        """The newest, or another one."""
        return restore(
            destination=self.destination,
            backup=backup,
            identity=identity or self.identity,
            permits=Permits(**permits),
            say=self.said.append,
        )

    def verify(self, *, decrypt: bool = False, backup: str = "") -> list[str]:
        """What is wrong."""
        identity = self.identity if decrypt else None
        return verify(destination=self.destination, backup=backup, identity=identity, say=self.said.append)[1]

    def wipe(self) -> None:
        """Neither a row nor a byte is left of the hub."""
        call_command("flush", interactive=False, verbosity=0)
        for found in list(self.store.every()):
            self.store.delete(found.sha256)

    def files(self, folder: str = "") -> dict[str, int]:
        """What lies at the destination, with sizes."""
        return {entry.path: entry.size for entry in self.destination.entries(folder)}

    def content(self, path: str) -> bytes:
        """Of a file there."""
        with self.destination.open(path) as stream:
            return stream.read()

    def put(self, path: str, content: bytes) -> None:
        """As somebody would who can write there."""
        with self.destination.writing(path) as stream:
            stream.write(content)

    def one_blob(self) -> str:
        """The path of some blob there."""
        return min(self.files("objects"))


def new_identity(path: Path) -> str:
    """An identity file; its public key."""
    made = x25519.Identity.generate()
    path.write_text(f"# a comment\n{made}\n")
    return str(made.to_public())


def keep_blob(data: bytes | None = None) -> Blob:
    """A blob that a row refers to, as the wheels of the public index are."""
    with transaction.atomic():  # a backup beside it has both or neither
        blob = make_blob(data)
        StoredWheel.objects.create(blob=blob, filename=f"{blob.sha256[:20]}.whl", name="n", version="1")
    return blob


def every_row() -> Rows:
    """Of each table all rows with all columns, read by Django's own means; without the pause, which a backup holds."""
    return {model._meta.db_table: sorted(_rows(model)) for model in _models()}


def _models() -> list[type[Model]]:
    every = apps.get_models(include_auto_created=True)
    return [model for model in every if model is not GarbagePause and not model._meta.proxy]


def _rows(model: type[Model]) -> list[tuple[str, ...]]:
    rows: Any = model._base_manager.order_by().values_list(*(f.attname for f in model._meta.concrete_fields))
    return [tuple(map(repr, row)) for row in rows]


def wrong_bytes(store: Backend) -> list[str]:
    """Blobs whose bytes are missing or others than their name says."""
    wrong = []
    for sha256 in Blob.objects.values_list("pk", flat=True):
        if store.stat(sha256) is None:
            wrong.append(sha256)
            continue
        with store.open(sha256) as stream:
            if hashlib.sha256(stream.read()).hexdigest() != sha256:
                wrong.append(sha256)
    return wrong


def manage_command(*arguments: str) -> list[str]:
    """`manage.py` in a process that ends with this one."""
    return ["setpriv", "--pdeathsig", "KILL", sys.executable, "manage.py", *arguments]


def hub_variables(data: Path, **more: str) -> Mapping[str, str]:
    """Of a process of this very hub: its database, and blobs below `data`."""
    name = str(connection.settings_dict["NAME"])
    url = f"sqlite:///{name}" if connection.vendor == "sqlite" else postgres_url(name)
    return {**os.environ, "HUB_DATABASE_URL": url, "HUB_DATA": str(data), **more}


def postgres_url(name: str) -> str:
    """A database beside that of the tests."""
    from tests import backends  # noqa: PLC0415

    return backends.DATABASE_URL.rpartition("/")[0] + f"/{name}"


LATER = timedelta(days=1, minutes=1)
