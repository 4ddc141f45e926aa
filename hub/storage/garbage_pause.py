"""A pause of the garbage collection: whoever copies blobs holds it, and what the database refers to stays meanwhile.

One row is the lock of both sides. The collection takes it for each blob that it deletes: it sees a pause that has come,
and one that begins waits for the deletion in hand. A pause ends by itself when its holder falls silent.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import transaction

from hub.storage.models import GarbagePause

LASTS = timedelta(seconds=60)  # unless it is extended
_NAME = "blobs"


def begin_pause(*, holder: str, now: datetime) -> str:
    """Take the pause; empty when it is the holder's now, else who has it."""
    with transaction.atomic():
        row = _locked()
        if row.holder not in ("", holder) and row.expires_at > now:
            return row.holder
        GarbagePause.objects.filter(pk=_NAME).update(holder=holder, expires_at=now + LASTS)
    return ""


def extend_pause(*, holder: str, now: datetime) -> bool:
    """Go on; False when it has run out meanwhile, and the collection may have deleted something."""
    held = GarbagePause.objects.filter(pk=_NAME, holder=holder, expires_at__gt=now)
    return held.update(expires_at=now + LASTS) == 1


def end_pause(*, holder: str) -> None:
    """Nothing is held any more."""
    GarbagePause.objects.filter(pk=_NAME, holder=holder).update(holder="")


def is_paused(now: datetime) -> bool:
    """Whether nothing may be deleted now. Inside a transaction: until its end no pause begins."""
    row = _locked()
    return row.holder != "" and row.expires_at > now


def _locked() -> GarbagePause:
    GarbagePause.objects.get_or_create(pk=_NAME, defaults={"expires_at": datetime(2000, 1, 1, tzinfo=UTC)})
    return GarbagePause.objects.select_for_update().get(pk=_NAME)
