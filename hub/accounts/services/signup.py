"""Who may make an account: everybody, holders of a team's invitation, or nobody (HUB_SIGNUP, HUB_SIGNUP_DOMAINS).

The first administrator comes by a link that the hub prints, others by an administrator's invitation, whatever is set.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.urls import Resolver404, resolve

from hub.accounts.models import TeamInvitation, User
from hub.accounts.queries import find_invitation
from hub.accounts.services.team_invitations import join_team
from hub.core.errors import NotAllowed, NotFound

INVITED, OPEN = "invited", "open"


def may_sign_up(*, next_path: str) -> bool:
    """Whether somebody who goes on to `next_path` may make an account first."""
    policy = settings.HUB.signup
    return bool(policy == OPEN or (policy == INVITED and waiting_invitation(next_path)))


def waiting_invitation(next_path: str) -> TeamInvitation | None:
    """The invitation to a team whose page `next_path` is, if it can still be accepted."""
    secret = _secret_of(next_path)
    try:
        return find_invitation(secret) if secret else None
    except NotFound:
        return None


def join_by_invitation(*, user: User, next_path: str) -> bool:
    """Spend the invitation that let a new user in, so that it lets in one. Whether there was one. Raises NotFound."""
    secret = _secret_of(next_path)
    if secret:
        join_team(user=user, secret=secret)
    return bool(secret)


def check_mail_domain(address: str) -> None:
    """Raises NotAllowed for an address whose domain may make no account."""
    allowed = [domain.lower() for domain in settings.HUB.signup_domains]
    if allowed and address.rpartition("@")[2].lower() not in allowed:
        raise NotAllowed(
            f"accounts need an address at {' or '.join(allowed)}",
            code="mail_domain",
            hint="use your work address, or ask an administrator for an invitation",
        )


def _secret_of(path: str) -> str:
    try:
        found = resolve(urlsplit(path).path)
    except (Resolver404, ValueError):
        return ""
    return str(found.kwargs["secret"]) if found.url_name == "team-join" else ""
