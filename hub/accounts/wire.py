"""Accounts' rows as wire types."""

from __future__ import annotations

from collections.abc import Iterable

from envhub.protocol.accounts import Scope, TokenView, UserView, WhoAmI

from hub.accounts.models import ApiToken, User
from hub.accounts.queries import visible_owners


def token_view(token: ApiToken) -> TokenView:
    """A token without its secret."""
    return TokenView(
        id=str(token.pk),
        name=token.name,
        prefix=token.prefix,
        scopes=tuple(Scope(scope) for scope in token.scopes),
        created_at=token.created_at,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
        revoked=token.revoked_at is not None,
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
