"""Sessions whose time is over: Django leaves them in the table, a row for every sign-in there ever was."""

from __future__ import annotations

from datetime import datetime

from django.contrib.sessions.models import Session


def forget_old_sessions(*, now: datetime) -> int:
    """Delete the sessions that have expired; called by the sweeper."""
    return Session.objects.filter(expire_date__lt=now).delete()[0]
