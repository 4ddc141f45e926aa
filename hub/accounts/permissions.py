"""What the request's credentials permit: scopes of API tokens; a session has them all. Called first by API views."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from envhub.protocol.accounts.users import Scope
from rest_framework.request import Request

from hub.accounts.models import ApiToken, User
from hub.core.errors import NotAllowed, NotAuthenticated


def scopes_of(request: Request | HttpRequest) -> tuple[Scope, ...]:
    """The scopes that the request has; none without a signed-in user."""
    user = request.user
    if not isinstance(user, User) or not user.is_active:
        return ()
    token = getattr(request, "auth", None)
    given = {Scope(scope) for scope in token.scopes} if isinstance(token, ApiToken) else set(Scope)
    if not user.is_administrator:
        given.discard(Scope.ADMIN)
    return tuple(scope for scope in Scope if scope in given)


def require_scope(request: Request | HttpRequest, scope: Scope) -> User:
    """The signed-in user. Raises NotAuthenticated without one, NotAllowed when the token lacks `scope`."""
    user = request.user
    if not isinstance(user, User) or not user.is_active:
        raise NotAuthenticated("sign in first", hint="`hub login`, or send an API token")
    if scope not in scopes_of(request):
        raise NotAllowed(
            f"this requires the scope {scope.value}", code="scope_missing", hint="create a token with this scope"
        )
    return user


def require_account(request: Request | HttpRequest, scope: Scope) -> User:
    """As require_scope, for what concerns the person: a token for one owner may not. Raises NotAllowed."""
    user = require_scope(request, scope)
    if user.only_owner is not None:
        hint = "use a token for all of your owners"
        raise NotAllowed("this token acts for a single owner only", code="token_limited", hint=hint)
    return user


def check_read(request: Request | HttpRequest) -> None:
    """For reads that anonymous callers may make too: a token that is sent must have the scope read."""
    if isinstance(request.user, User):
        require_scope(request, Scope.READ)


def require_administrator(request: Request | HttpRequest, scope: Scope) -> User:
    """An administrator, by token only with the scope admin. Raises NotAuthenticated, NotAllowed."""
    user = require_scope(request, scope)
    if user.is_administrator:
        return user
    if user.is_superuser:
        page = f"{str(settings.HUB.base_url).rstrip('/')}{reverse('tokens')}"
        hint = f"create one on {page}, then run `hub login --token -` on this machine"
        raise NotAllowed("this requires a token with the scope admin", code="scope_missing", hint=hint)
    raise NotAllowed("only an administrator may do this", hint="ask the hub's operator")
