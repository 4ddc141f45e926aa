"""Accounts' rows as wire types."""

from __future__ import annotations

from collections.abc import Iterable

from envhub.protocol.accounts.quotas import QuotaView
from envhub.protocol.accounts.teams import MemberView, TeamInvitationView, TeamRole, TeamView
from envhub.protocol.accounts.users import Scope, TokenView, UserView, WhoAmI

from hub.accounts.models import ApiToken, Owner, OwnerQuota, TeamInvitation, User
from hub.accounts.queries import visible_owners


def token_view(token: ApiToken) -> TokenView:
    """A token without its secret."""
    return TokenView(
        id=str(token.pk),
        name=token.name,
        prefix=token.prefix,
        scopes=tuple(Scope(scope) for scope in token.scopes),
        owner=token.owner.slug if token.owner else None,
        created_at=token.created_at,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
        revoked=token.revoked_at is not None,
    )


def quota_view(quota: OwnerQuota) -> QuotaView:
    """An owner's own quota; without any figure where none is set."""
    return QuotaView(
        owner=quota.owner.slug,
        running=quota.running,
        gpu_hours=quota.gpu_hours,
        tokens=quota.tokens,
        storage_gb=quota.storage_gb,
        changed_at=quota.changed_at,
    )


def user_view(user: User) -> UserView:
    """A user for administrators."""
    return UserView(
        name=user.username,
        is_admin=user.is_superuser,
        is_active=user.is_active,
        joined_at=user.date_joined,
        last_login=user.last_login,
        invited=user.last_login is None and not user.has_usable_password(),
    )


def who_am_i(user: User, scopes: Iterable[Scope]) -> WhoAmI:
    """The caller, with the owners that the caller acts for."""
    memberships = visible_owners(user).filter(memberships__user=user)
    return WhoAmI(
        user=user.username,
        owners=tuple(memberships.values_list("slug", flat=True)),
        scopes=tuple(scopes),
        is_admin=user.is_administrator,
    )


def team_view(team: Owner) -> TeamView:
    """A team as `visible_teams` annotates it."""
    return TeamView(
        name=team.slug,
        display_name=team.display_name,
        role=TeamRole(team.role) if team.role else None,  # type: ignore[attr-defined]  # annotated
        members=team.members,  # type: ignore[attr-defined]  # annotated
        created_at=team.created_at,
    )


def member_view(user: User) -> MemberView:
    """A member as `members_of` annotates it."""
    return MemberView(user=user.username, role=TeamRole(user.role), is_active=user.is_active)  # type: ignore[attr-defined]


def invitation_view(row: TeamInvitation) -> TeamInvitationView:
    """An invitation without its secret."""
    return TeamInvitationView(
        id=str(row.pk),
        role=TeamRole(row.role),
        created_by=row.created_by.username,
        created_at=row.created_at,
        expires_at=row.expires_at,
        mail=row.mail,
        sent_at=row.sent_at,
    )
