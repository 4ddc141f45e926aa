"""API tokens: shown once, stored hashed, scoped, expiring, revocable."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import ApiToken, Owner, User
from hub.core.digests import new_secret, sha256_hex
from hub.core.errors import NotAllowed

TOKEN_PREFIX = "hub_"
DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.INFERENCE)
USE_IS_NOTED_EVERY = timedelta(minutes=1)


def create_token(
    *,
    user: User,
    name: str,
    scopes: Iterable[Scope] = DEFAULT_SCOPES,
    expires_in_days: float | None = 365,
    owner: Owner | None = None,
) -> tuple[str, ApiToken]:
    """A new token: its secret (never stored) and its row. owner: the only one that it acts for; None: all of the
    user's.

    Raises NotAllowed for a disabled user, for the scope admin of somebody who is no administrator, or for one owner.
    """
    if not user.is_active:
        raise NotAllowed(
            f"{user.username} is disabled", code="user_disabled", hint="ask an administrator to enable the user"
        )
    wanted = sorted(set(scopes), key=list(Scope).index)
    if Scope.ADMIN in wanted and not user.is_administrator:
        raise NotAllowed("only an administrator's token can have the scope admin")
    if Scope.ADMIN in wanted and owner is not None:
        raise NotAllowed("a token for a single owner cannot have the scope admin")
    secret = new_secret(TOKEN_PREFIX)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        prefix=secret[:10],
        digest=sha256_hex(secret),
        scopes=[scope.value for scope in wanted],
        owner=owner,
        expires_at=None if expires_in_days is None else timezone.now() + timedelta(days=expires_in_days),
    )
    return secret, token


def revoke_token(*, token: ApiToken) -> ApiToken:
    """End a token for good; again is a no-op."""
    if token.revoked_at is None:
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
    return token


def note_token_use(*, token: ApiToken, now: datetime) -> None:
    """Write `last_used_at`, at most once a minute a token, whatever the number of processes."""
    cutoff = now - USE_IS_NOTED_EVERY
    if token.last_used_at is not None and token.last_used_at > cutoff:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=cutoff)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
