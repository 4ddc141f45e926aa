"""Notifications by mail: to those who want it, together, again when the server was away."""

from __future__ import annotations

from datetime import timedelta
from smtplib import SMTPException

import pytest
from allauth.account.models import EmailAddress
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.notices import NoticeChoices, NoticeKind
from pytest_django import Settings

from hub.accounts.models import User
from hub.notices.mailing import Mailer
from hub.notices.models import Notice
from hub.notices.services import choose_notices, tell
from tests.factories.accounts import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice(settings: Settings) -> User:
    settings.HUB = settings.HUB.model_copy(update={"mail_url": "console:"})
    alice = make_user("alice")
    EmailAddress.objects.create(user=alice, email="alice@example.org", verified=True, primary=True)
    choose_notices(user=alice, choices=NoticeChoices(mail=True))
    return alice


class Box(list[tuple[str, str, str]]):
    """A mail server that may be away."""

    away = False

    def __call__(self, address: str, subject: str, body: str) -> None:
        if self.away:
            raise SMTPException("away")
        self.append((address, subject, body))


def told(user: User, *texts: str) -> None:
    for text in texts:
        tell(users=[user.pk], kind=NoticeKind.FAILED, text=text, detail="why", url="/runs/1")


def later(**past: float) -> None:
    """As if this time had passed."""
    for notice in Notice.objects.exclude(mail_due_at=None):
        Notice.objects.filter(pk=notice.pk).update(mail_due_at=timezone.now() - timedelta(**past))


def swept(mailer: Mailer) -> None:
    mailer()
    mailer.wait()
    mailer()


def test_what_is_told_within_a_moment_is_one_mail(alice: User) -> None:
    box = Box()
    mailer = Mailer(box)
    told(alice, "a\nfailed", "b failed")
    swept(mailer)
    assert box == []
    later(seconds=1)
    swept(mailer)
    swept(mailer)
    ((address, subject, body),) = box
    assert (address, subject) == ("alice@example.org", "[Environments Hub] 2 notifications")
    assert body.count("\nwhy\nhttp") == 2
    told(alice, "c\nfailed")
    later(seconds=1)
    swept(mailer)
    assert box[1][1] == "[Environments Hub] c failed"


def test_nobody_gets_mail_unasked_or_unconfirmed(alice: User) -> None:
    box, bob = Box(), make_user("bob")
    told(bob, "x")
    assert Notice.objects.get(user=bob).mail_due_at is None
    EmailAddress.objects.update(verified=False)
    told(alice, "y")
    later(seconds=1)
    swept(Mailer(box))
    assert box == []
    assert not Notice.objects.exclude(mail_due_at=None).exists()


def test_a_server_that_is_away_is_tried_for_a_day(alice: User) -> None:
    box = Box()
    mailer = Mailer(box)
    box.away = True
    told(alice, "x")
    later(seconds=1)
    swept(mailer)
    assert Notice.objects.get().mail_due_at is not None
    box.away = False
    later(seconds=1)
    swept(mailer)
    assert len(box) == 1
    told(alice, "y")
    Notice.objects.exclude(mail_due_at=None).update(created_at=timezone.now() - timedelta(days=2))
    box.away = True
    later(seconds=1)
    swept(mailer)
    assert not Notice.objects.exclude(mail_due_at=None).exists()


def test_the_page_says_where_mail_goes(alice: User, client: Client) -> None:
    client.force_login(alice)
    assert "To alice@example.org." in client.get("/notifications").content.decode()
    client.post("/notifications/choices", {"runs": "own"})
    assert not choose_notices(user=alice, choices=NoticeChoices()).mail
