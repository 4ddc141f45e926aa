"""Reads of notifications."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import QuerySet
from envhub.protocol.accounts.notices import Follows
from envhub.protocol.runs import RunState

from hub.accounts.models import Membership, Role, User
from hub.accounts.queries import has_role
from hub.core.errors import NotFound
from hub.core.ids import GivenId, find_by_id
from hub.notices.models import Notice, NoticeSettings
from hub.runs.models import Run

MOST_TOLD = 500  # followers of one owner's runs
MOST_COUNTED = 100  # unread ones; more are shown as "99+"


def notices_of(user: User) -> QuerySet[Notice]:
    """The user's notifications, newest first."""
    return Notice.objects.filter(user=user).order_by("-pk")


def get_notice(user: User, notice_id: GivenId) -> Notice:
    """One of them. Raises NotFound, AmbiguousId."""
    found = find_by_id(notices_of(user), notice_id, str)
    if found is None:
        raise NotFound("the notification does not exist")
    return found


def count_unread(user: User) -> int:
    """How many are unread, counted up to MOST_COUNTED."""
    return Notice.objects.filter(user=user, read_at__isnull=True)[:MOST_COUNTED].count()


def choices_of(user: User) -> NoticeSettings:
    """What the user wants to be told."""
    return NoticeSettings.objects.filter(user=user).first() or NoticeSettings(user=user)


def wanting_mail(users: Iterable[UUID]) -> list[UUID]:
    """Those of the users who want their notifications by mail, too."""
    rows = NoticeSettings.objects.filter(user__in=list(users), mail=True)
    return list(rows.order_by("user_id").values_list("user_id", flat=True))


def followers_of(run: Run) -> list[UUID]:
    """Whom the end of a run is told: its starter, and those who follow all runs; only members of its owner."""
    own = choices_of(run.created_by).runs if has_role(run.created_by, run.owner, Role.READER) else None
    wanted = own in {Follows.OWN, Follows.ALL} or (own == Follows.FAILED and run.state == RunState.FAILED)
    members = Membership.objects.filter(owner=run.owner_id, user__is_active=True).values("user_id")
    rows = NoticeSettings.objects.filter(runs=Follows.ALL.value, user_id__in=members).exclude(user=run.created_by_id)
    others = list(rows.order_by("user_id").values_list("user_id", flat=True)[:MOST_TOLD])
    return [run.created_by_id, *others] if wanted else others
