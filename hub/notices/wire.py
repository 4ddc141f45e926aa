"""Notifications as wire types."""

from __future__ import annotations

from envhub.protocol.accounts.notices import Follows, NoticeChoicesView, NoticeKind, NoticeView

from hub.notices.models import Notice, NoticeSettings


def notice_view(row: Notice) -> NoticeView:
    """One notification."""
    return NoticeView(
        id=str(row.pk),
        kind=NoticeKind(row.kind),
        text=row.text,
        detail=row.detail,
        url=row.url,
        created_at=row.created_at,
        read_at=row.read_at,
    )


def choices_view(row: NoticeSettings) -> NoticeChoicesView:
    """What a user wants to be told."""
    return NoticeChoicesView(runs=Follows(row.runs), notes=row.notes, mail=row.mail)
