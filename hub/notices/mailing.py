"""The sweeper's chore that sends notifications by mail to those who want it; what comes together is one mail.

At least once: what is being sent is due again after LEASE, in case the process dies. A thread waits for the mail
server; the chore's own thread alone uses the database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from queue import Empty, SimpleQueue
from smtplib import SMTPException
from uuid import UUID

from django.conf import settings
from django.core.mail import send_mail

from hub.accounts.models import User
from hub.accounts.queries import confirmed_address
from hub.core import clock
from hub.notices.models import Notice

logger = logging.getLogger(__name__)
LEASE = timedelta(minutes=5)  # and until the next try
GIVE_UP = timedelta(days=1)
AT_ONCE = 200

Send = Callable[[str, str, str], None]


def send(address: str, subject: str, body: str) -> None:
    """One mail. Raises OSError, SMTPException."""
    send_mail(subject, body, None, [address])


class Mailer:
    """Called about once a second by one process of all hubs."""

    def __init__(self, send: Send = send) -> None:
        self._send = send
        self._sent: SimpleQueue[list[UUID]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self) -> int:
        """Note what was sent, and begin with what is due; how many mails."""
        while True:
            try:
                Notice.objects.filter(pk__in=self._sent.get_nowait()).update(mail_due_at=None)
            except Empty:
                break
        if self._thread is not None and self._thread.is_alive():
            return 0
        mails = _due(clock.now())
        if mails:
            self._thread = threading.Thread(target=self._work, args=(mails,), daemon=True)
            self._thread.start()
        return len(mails)

    def wait(self) -> None:
        """Until what has begun is over."""
        if self._thread is not None:
            self._thread.join()

    def _work(self, mails: Iterable[tuple[str, list[Notice]]]) -> None:
        for address, notices in mails:
            try:
                self._send(address, *_written(notices))
            except (OSError, SMTPException) as error:
                logger.warning("mail to %s is tried again in %s: %s", address, LEASE, error)
            except Exception:
                logger.exception("a mail could not be written")
            else:
                self._sent.put([notice.pk for notice in notices])


def _due(now: datetime) -> list[tuple[str, list[Notice]]]:
    """(address, notifications) of each user, oldest first. Who has no confirmed address any more gets none."""
    rows = Notice.objects.filter(mail_due_at__lte=now).order_by("mail_due_at", "pk")
    due = list(rows.select_related("user")[:AT_ONCE])
    keys = [notice.pk for notice in due]
    Notice.objects.filter(pk__in=keys, created_at__gt=now - GIVE_UP).update(mail_due_at=now + LEASE)
    Notice.objects.filter(pk__in=keys, created_at__lte=now - GIVE_UP).update(mail_due_at=None)
    mails = []
    for user, found in groupby(sorted(due, key=lambda notice: (notice.user_id, notice.pk)), lambda notice: notice.user):
        notices = list(found)
        if address := _address(user):
            mails.append((address, notices))
        else:
            Notice.objects.filter(pk__in=[notice.pk for notice in notices]).update(mail_due_at=None)
    return mails


def _address(user: User) -> str:
    return confirmed_address(user) if user.is_active else ""


def _written(notices: Sequence[Notice]) -> tuple[str, str]:
    """(subject, body)."""
    hub = str(settings.HUB.base_url).rstrip("/")
    first = " ".join(notices[0].text.split())
    subject = first if len(notices) == 1 else f"{len(notices)} notifications"
    parts = ["\n".join(filter(None, (notice.text, notice.detail, f"{hub}{notice.url}"))) for notice in notices]
    parts.append(f"Choose what is sent to you: {hub}/notifications")
    return f"{settings.ACCOUNT_EMAIL_SUBJECT_PREFIX}{subject}", "\n\n".join(parts) + "\n"
