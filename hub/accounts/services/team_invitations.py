"""Invitations to a team: an admin makes a link, whoever has an account here and opens it becomes a member, once.

Where HUB_SIGNUP=invited, a link also lets one person make an account (hub.accounts.services.signup).
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.utils import timezone

from hub.accounts.acting import note_owner
from hub.accounts.models import Membership, Owner, Role, TeamInvitation, User
from hub.accounts.queries import find_invitation, get_invitation, require_role, waiting_invitations
from hub.accounts.services.teams import changing, join
from hub.core.digests import new_secret, sha256_hex
from hub.core.errors import Conflict
from hub.core.ids import GivenId

MOST_WAITING = 100  # of one team


class TeamLink(NamedTuple):
    """A fresh invitation; the URL's secret is stored hashed only."""

    invitation: TeamInvitation
    url: str


def invite_to_team(*, user: User, team: Owner, role: Role, valid_for: timedelta = timedelta(days=7)) -> TeamLink:
    """A new link. Raises NotAllowed, Conflict when too many wait."""
    with changing(team):
        require_role(user, team, Role.ADMIN)
        if waiting_invitations(team).count() >= MOST_WAITING:
            raise Conflict(f"{MOST_WAITING} invitations wait already", hint="revoke some")
        secret = new_secret("")
        made = TeamInvitation.objects.create(
            owner=team,
            role=role,
            digest=sha256_hex(secret),
            created_by=user,
            expires_at=timezone.now() + valid_for,
        )
    return TeamLink(made, f"{str(settings.HUB.base_url).rstrip('/')}/join/{secret}")


def revoke_invitation(*, user: User, team: Owner, invitation_id: GivenId) -> TeamInvitation:
    """End a link that waits. Raises NotAllowed, NotFound."""
    with changing(team):
        require_role(user, team, Role.ADMIN)
        invitation = get_invitation(team, invitation_id)
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
