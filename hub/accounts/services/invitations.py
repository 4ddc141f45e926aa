"""Invitations: an administrator makes a user and a one-time link, the person behind it sets the password."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from hub.accounts.models import LinkPurpose, LoginLink, User
from hub.accounts.services.links import use_link
from hub.accounts.services.users import create_user, end_access, set_first_password
from hub.core.digests import new_secret, sha256_hex
from hub.core.errors import Conflict, NotFound


class Invitation(NamedTuple):
    """A fresh invitation; the URL's secret is stored hashed only."""

    user: User
    url: str
    expires_at: datetime


def invite_user(
    *, username: str, is_admin: bool = False, reset: bool = False, valid_for: timedelta = timedelta(days=7)
) -> Invitation:
    """Make the user and a link, or another link for somebody who has not accepted yet. Earlier links end.

    `reset` means somebody who has an account: the password, all sessions and all API tokens end now, and the link sets
    a new password. Raises Invalid, Conflict (a disabled user, too, and where nobody signs in by password), NotFound.
    """
    if not settings.HUB.password_login:
        raise Conflict(
            "people sign in to this hub by its identity provider, and an invitation only sets a password",
            code="no_password_login",
            hint="give them an account there: HUB_SIGNUP says whom the hub then takes",
        )
    with transaction.atomic():
        user = User.objects.select_for_update().filter(username=username).first()
        if user is None:
            if reset:
                raise NotFound(f"there is no user {username}", hint="a new user is invited without `--reset`")
            user = create_user(username=username, is_superuser=is_admin)
        elif not user.is_active:
            raise Conflict(f"{username} is disabled", code="user_disabled", hint="enable the user first")
        elif not reset and (user.has_usable_password() or user.last_login is not None):
            raise Conflict(
                f"{username} has an account",
                code="user_exists",
                hint=f"for a new password: `hub user invite {username} --reset`",
            )
        elif is_admin and not user.is_superuser:
            raise Conflict(
                f"{username} is no administrator",
                code="user_exists",
                hint="invite without `--admin`",
            )
        now = timezone.now()
        if reset:
            end_access(user=user, now=now)
        LoginLink.objects.filter(user=user, used_at__isnull=True).update(used_at=now)
        secret, expires_at = new_secret(""), now + valid_for
        purpose = LinkPurpose.INVITATION
        LoginLink.objects.create(digest=sha256_hex(secret), user=user, purpose=purpose, expires_at=expires_at)
    return Invitation(user, f"{str(settings.HUB.base_url).rstrip('/')}/invitation/{secret}", expires_at)


def accept_invitation(*, secret: str, password: str) -> User:
    """Set the password and spend the link, or neither. Raises NotFound, Invalid (the password is too weak)."""
    with transaction.atomic():
        user = use_link(secret=secret, purpose=LinkPurpose.INVITATION)
        return set_first_password(user=user, password=password)
