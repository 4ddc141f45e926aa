"""Sessions: who signed in where, ending all but one, and forgetting those whose time is over, which Django keeps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth import update_session_auth_hash
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest

from hub.accounts.client_address import client_address
from hub.accounts.models import SignIn, User

BATCH = 1000


def note_sign_in(request: HttpRequest, user: User, **_: Any) -> None:
    """Receives Django's `user_logged_in`, which every way to sign in passes."""
    if not request.session.session_key:
        request.session.save()
    fields = {
        "user": user,
        "address": client_address(request)[:45],
        "browser": request.headers.get("User-Agent", "")[:200],
    }
    SignIn.objects.update_or_create(session_key=request.session.session_key, defaults=fields)


def end_other_sessions(*, request: HttpRequest, user: User) -> None:
    """Sign `user` out everywhere but in this session, whose key changes.

    All are over, also those that nobody has noted: what they hold matches the user no more. API tokens stay.
    """
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(session_epoch=F("session_epoch") + 1)
        user.refresh_from_db(fields=["session_epoch"])
        others = SignIn.objects.filter(user=user).exclude(session_key=request.session.session_key)
        keys = list(others.values_list("session_key", flat=True))
        Session.objects.filter(pk__in=keys).delete()
        others.delete()
        keep_session(request=request, user=user)


def keep_session(*, request: HttpRequest, user: User) -> None:
    """After what a session must match has changed, this one goes on, under another key."""
    before = request.session.session_key
    update_session_auth_hash(request, user)
    SignIn.objects.filter(session_key=before).update(session_key=request.session.session_key)


def forget_old_sessions(*, now: datetime) -> int:
    """Delete the sessions that have expired; called by the sweeper."""
    gone = 0
    while keys := list(Session.objects.filter(expire_date__lt=now).values_list("pk", flat=True)[:BATCH]):
        SignIn.objects.filter(session_key__in=keys).delete()
        gone += Session.objects.filter(pk__in=keys).delete()[0]
    return gone
