"""Invitations to a team: a link, to pass on or sent by mail; whoever has an account here and opens it becomes a member,
once.

Where HUB_SIGNUP=invited, a link also lets one person make an account (hub.accounts.services.signup). Mail names no text
that people write: anybody may make a team, and the hub would carry their words to strangers.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from smtplib import SMTPException
from typing import NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.template.loader import render_to_string
from django.utils import timezone

from hub.accounts.acting import note_owner
from hub.accounts.models import Membership, Owner, Role, TeamInvitation, User
from hub.accounts.queries import find_invitation, get_invitation, open_invitations, require_grant
from hub.accounts.services.limits import limit_rate
from hub.accounts.services.teams import changing, join
from hub.core.digests import new_secret, sha256_hex
from hub.core.errors import Conflict, Invalid
from hub.core.ids import GivenId

logger = logging.getLogger(__name__)
MOST_WAITING = 100  # of one team
MAILS_AN_HOUR = 50  # of one user
MAILS_A_DAY = 5  # to one address
VALID_FOR = timedelta(days=7)


class TeamLink(NamedTuple):
    """A fresh invitation; the URL's secret is stored hashed only."""

    invitation: TeamInvitation
    url: str
    is_sent: bool = False  # the mail server has taken it


def invite_to_team(
    *, user: User, team: Owner, role: Role, mail: str = "", valid_for: timedelta = VALID_FOR
) -> TeamLink:
    """A new link, sent to the address `mail` if there is one; a server that does not take it leaves the link.

    Raises NotAllowed, Conflict (too many wait, one for the address does, or the hub sends no mail), Invalid,
    TooManyRequests.
    """
    mail = _checked(mail)
    secret = new_secret("")
    with changing(team):
        require_grant(user, team, role)
        waiting = open_invitations(team)
        if waiting.count() >= MOST_WAITING:
            raise Conflict(f"{MOST_WAITING} invitations wait already", hint="revoke some")
        if mail and waiting.filter(mail=mail).exists():
            raise Conflict(f"an invitation for {mail} waits already", code="already_invited", hint="send it again")
        if mail:
            _count_mail(user, mail)
        made = TeamInvitation.objects.create(
            owner=team,
            role=role,
            mail=mail,
            digest=sha256_hex(secret),
            created_by=user,
            expires_at=timezone.now() + valid_for,
        )
    return _link(made, secret, by=user)


def send_invitation(*, user: User, team: Owner, invitation_id: GivenId) -> TeamLink:
    """Send one again, as a new link that works from now on; the one that was sent before does not any more.

    Raises NotAllowed, NotFound, Conflict (it has no address, or the hub sends no mail), TooManyRequests.
    """
    secret = new_secret("")
    with changing(team):
        require_grant(user, team)
        invitation = get_invitation(team, invitation_id)
        require_grant(user, team, Role(invitation.role))
        if not invitation.mail:
            raise Conflict("this invitation has no address", code="no_address", hint="make a new one, with an address")
        _count_mail(user, _checked(invitation.mail))
        invitation.digest, invitation.created_by = sha256_hex(secret), user
        invitation.expires_at = timezone.now() + VALID_FOR
        invitation.save(update_fields=["digest", "created_by", "expires_at"])
    return _link(invitation, secret, by=user)


def _checked(mail: str) -> str:
    mail = mail.strip().lower()
    if not mail:
        return ""
    if not settings.HUB.mail_url:
        raise Conflict(
            "this hub sends no mail",
            code="no_mail",
            hint="invite without an address and pass on the link, or have the operator set HUB_MAIL_URL",
        )
    try:
        validate_email(mail)
    except ValidationError as error:
        raise Invalid("this is no mail address", fields={"mail": "write it like ada@example.org"}) from error
    return mail


def _count_mail(user: User, mail: str) -> None:
    limit_rate(key=f"invitation-mail:{user.pk}", limit=MAILS_AN_HOUR, per=timedelta(hours=1))
    limit_rate(key=f"invitation-mail-to:{sha256_hex(mail)}", limit=MAILS_A_DAY, per=timedelta(days=1))


def _link(invitation: TeamInvitation, secret: str, *, by: User) -> TeamLink:
    url = f"{str(settings.HUB.base_url).rstrip('/')}/join/{secret}"
    if not invitation.mail:
        return TeamLink(invitation, url)
    team = invitation.owner.slug
    known = {"invitation": invitation, "by": by, "url": url, "hub_url": settings.HUB.base_url}
    known["can_sign_up"] = settings.HUB.signup != "closed"
    body = render_to_string("accounts/email/team_invitation.txt", known)
    subject = f"{settings.ACCOUNT_EMAIL_SUBJECT_PREFIX}{by.username} invites you to the team {team}"
    try:
        send_mail(subject, body, None, [invitation.mail])
    except (OSError, SMTPException) as error:
        logger.warning("an invitation to %s was not sent: %s", team, error)
        return TeamLink(invitation, url)
    invitation.sent_at = timezone.now()
    invitation.save(update_fields=["sent_at"])
    return TeamLink(invitation, url, is_sent=True)


def revoke_invitation(*, user: User, team: Owner, invitation_id: GivenId) -> TeamInvitation:
    """End a link that waits. Raises NotAllowed, NotFound."""
    with changing(team):
        require_grant(user, team)
        invitation = get_invitation(team, invitation_id)
        require_grant(user, team, Role(invitation.role))
        invitation.ended_at = timezone.now()
        invitation.save(update_fields=["ended_at"])
    return invitation


def join_team(*, user: User, secret: str) -> Membership:
    """Accept an invitation, which ends it. Raises NotFound, Conflict (a member already; the link stays)."""
    team = find_invitation(secret).owner
    with changing(team):
        invitation = find_invitation(secret)  # again: somebody else may have been faster
        membership = join(team, user, Role(invitation.role))
        invitation.ended_at = timezone.now()
        invitation.save(update_fields=["ended_at"])
    note_owner(team)
    return membership
