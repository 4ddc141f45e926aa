"""Writes of notifications. They share the transaction of what they tell of, so that none is lost or told twice."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from envhub.protocol.accounts.notices import NoticeChoices, NoticeKind
from envhub.protocol.runs import Failure, RunKind, RunState

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import has_role
from hub.core import clock
from hub.notices.models import Notice, NoticeSettings
from hub.notices.queries import choices_of, count_unread, followers_of, wanting_mail
from hub.registry.services.uploads import source_upload_of
from hub.runs.kinds import spec_of
from hub.runs.models import Run

KEPT = timedelta(days=90)
GATHER = timedelta(seconds=30)  # what is told meanwhile goes into the same mail
_WORDS = {
    RunKind.EVAL: "The evaluation",
    RunKind.TRAIN: "The training",
    RunKind.BUILD: "The build",
    RunKind.IMAGE: "The build of the image",
}


def tell_of_run(run: Run) -> None:
    """`hub.runs.endings`: a run that people wait for has ended. Whoever cancels one knows it."""
    what = _WORDS.get(RunKind(run.kind))
    if what is None or run.parent_id is not None or run.state == RunState.CANCELLED:
        return
    failed = run.state == RunState.FAILED
    if not failed and run.kind == RunKind.BUILD and source_upload_of(run) is not None:
        return  # what was uploaded is a package now, whose own build tells how it ended
    tell(
        users=followers_of(run),
        kind=NoticeKind.FAILED if failed else NoticeKind.FINISHED,
        text=f"{what} {run.subject} {'failed' if failed else 'has finished'}",
        detail=_outcome(run, failed=failed),
        url=run.subject_url or f"/runs/{run.pk}",
    )


def _outcome(run: Run, *, failed: bool) -> str:
    if not failed:
        return spec_of(run.kind).outcome(run)
    return Failure.model_validate(run.failure).message if run.failure else ""


def tell_of_note(*, author: User, others: Iterable[User], owner: Owner, about: str, text: str, url: str) -> None:
    """Somebody has written a note on a rollout of `owner`. Tell those of the others who want it and still belong there:
    who started the whole, and who wrote earlier notes."""
    wanted = {one.pk: one for one in others if one.pk != author.pk}
    users = [key for key, one in wanted.items() if choices_of(one).notes and has_role(one, owner, Role.READER)]
    tell(
        users=users,
        kind=NoticeKind.NOTE,
        text=f"{author.username} wrote a note on {about}",
        detail=text,
        url=url,
    )


def tell_hub(*, user: UUID, text: str, detail: str = "", url: str = "") -> None:
    """The hub itself has something to say to a user."""
    tell(users=[user], kind=NoticeKind.HUB, text=text, detail=detail, url=url)


def tell(*, users: Iterable[UUID], kind: NoticeKind, text: str, detail: str = "", url: str = "") -> None:
    """Tell some users one thing; call it in the transaction of what has happened."""
    fields = {"kind": kind.value, "text": text[:400], "detail": detail[:300], "url": url[:500]}
    with transaction.atomic():
        # in order, or two ends of runs wait for each other
        rows = User.objects.select_for_update(no_key=True).filter(pk__in=set(users))
        told = list(rows.order_by("pk").values_list("pk", flat=True))
        due = clock.now() + GATHER if settings.HUB.mail_url else None
        mailed = set(wanting_mail(told)) if due else set()
        Notice.objects.bulk_create(
            Notice(user_id=user, mail_due_at=due if user in mailed else None, **fields) for user in told
        )
        User.objects.filter(pk__in=told).update(unread=F("unread") + 1)


def mark_read(*, user: User, notice: Notice | None = None) -> None:
    """One of the user's notifications, or all. Counts anew, whatever the number beside the bell was."""
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)
        rows = Notice.objects.filter(user=user, read_at__isnull=True)
        if notice is not None:
            rows = rows.filter(pk=notice.pk)
        rows.update(read_at=clock.now(), mail_due_at=None)
        user.unread = count_unread(user)
        User.objects.filter(pk=user.pk).update(unread=user.unread)


def choose_notices(*, user: User, choices: NoticeChoices) -> NoticeSettings:
    """What the user wants to be told from now on."""
    wanted = {"runs": choices.runs.value, "notes": choices.notes, "mail": choices.mail}
    return NoticeSettings.objects.update_or_create(user=user, defaults=wanted)[0]
