"""API of the caller's account: identity, API tokens and device login."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.users import (
    DeviceCode,
    DeviceCodeRequest,
    DeviceToken,
    DeviceTokenError,
    DeviceTokenRequest,
    Scope,
    TokenCreated,
    TokenRequest,
    TokenView,
    WhoAmI,
)
from envhub.protocol.base import Page
from rest_framework.decorators import api_view, authentication_classes, parser_classes
from rest_framework.exceptions import ParseError
from rest_framework.parsers import FormParser
from rest_framework.request import Request

from hub.accounts.client_address import client_address
from hub.accounts.errors import DeviceError
from hub.accounts.models import ApiToken, User
from hub.accounts.permissions import require_account, scopes_of
from hub.accounts.queries import get_token, own_or_team, tokens_of
from hub.accounts.services import create_token, exchange_device_code, limit_rate, revoke_token, start_device_login
from hub.accounts.signing_in import must_confirm
from hub.accounts.wire import token_view, who_am_i
from hub.core.errors import HubError, Invalid, NotAllowed, NotAuthenticated
from hub.core.http import answer, answer_page, error_answer, parse
from hub.core.ids import GivenId
from hub.core.pagination import newest_first
from hub.core.requests.json_body import StrictJsonParser
from hub.core.requests.parameters import PAGE, query

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@extend_schema(responses=WhoAmI)
@api_view(["GET"])
def me(request: Request) -> HttpResponse:
    """Return the caller, the owners they belong to and what their credentials permit."""
    if not isinstance(request.user, User):
        raise NotAuthenticated("sign in first", hint="`hub login`, or send an API token")
    return answer(who_am_i(request.user, scopes_of(request)))


@extend_schema(methods=["GET"], parameters=query(*PAGE), responses=Page[TokenView])
@extend_schema(methods=["POST"], request=TokenRequest, responses={201: TokenCreated})
@api_view(["GET", "POST"])
def tokens(request: Request) -> HttpResponse:
    """List the caller's API tokens, or create one. Only the response to POST contains the token itself."""
    if request.method == "GET":
        user = require_account(request, Scope.READ)
        rows, following = newest_first(tokens_of(user), request)
        return answer_page(rows, following, token_view)
    user = require_account(request, Scope.WRITE)
    if request.auth is None and must_confirm(request._request):
        hint = f"confirm your password: {reverse('account_reauthenticate')}"
        raise NotAllowed("creating a token requires a recent sign-in", code="confirm_identity", hint=hint)
    body = parse(request, TokenRequest)
    _refuse_more_than_own(request, body)
    secret, token = create_token(
        user=user,
        name=body.name,
        scopes=body.scopes,
        expires_in_days=body.expires_in_days,
        owner=own_or_team(user, body.owner) if body.owner else None,
    )
    return answer(TokenCreated(token=secret, view=token_view(token)), status=201)


def _refuse_more_than_own(request: Request, body: TokenRequest) -> None:
    """Refuse a token that has more scopes than the caller's credentials, or outlives them."""
    extra = sorted(set(body.scopes) - set(scopes_of(request)))
    if extra:
        raise NotAllowed(f"your credentials lack the scope {', '.join(extra)}", code="scope_missing")
    own = request.auth
    if isinstance(own, ApiToken) and own.expires_at is not None:
        left = (own.expires_at + timedelta(minutes=1) - timezone.now()).days
        if body.expires_in_days is None or body.expires_in_days > left:
            hint = f"expires_in_days may be at most {left}; the page API tokens allows any lifetime"
            raise NotAllowed("a token cannot create a token that outlives it", hint=hint)


@extend_schema(responses={200: TokenView})
@api_view(["DELETE"])
def token_detail(request: Request, token_id: GivenId) -> HttpResponse:
    """Revoke one of the caller's tokens."""
    user = require_account(request, Scope.WRITE)
    return answer(token_view(revoke_token(token=get_token(user, token_id))))


@extend_schema(request=DeviceCodeRequest, responses=DeviceCode)
@api_view(["POST"])
@authentication_classes([])
@parser_classes([FormParser, StrictJsonParser])
def device_code(request: Request) -> HttpResponse:
    """Start a device login (RFC 8628, 3.1). Requires no authentication; requests are limited per address."""
    body = parse(request, DeviceCodeRequest)
    now = timezone.now()
    limit_rate(key=f"device-code:{client_address(request)}", limit=30, per=timedelta(minutes=10), now=now)
    scopes = _scopes(body.scope)
    reply, _ = start_device_login(client_name=body.client_name or body.client_id, scopes=scopes, now=now)
    return _no_store(answer(reply))


def _scopes(text: str) -> tuple[Scope, ...]:
    try:
        wanted = tuple(Scope(word) for word in text.split())
    except ValueError as error:
        raise Invalid("unknown scope", fields={"scope": text}) from error
    if Scope.ADMIN in wanted:
        raise Invalid("a device cannot request the scope admin", fields={"scope": text})
    return wanted or (Scope.READ, Scope.WRITE, Scope.INFERENCE)


@extend_schema(request=DeviceTokenRequest, responses={200: DeviceToken, 400: DeviceTokenError})
@api_view(["POST"])
@authentication_classes([])
@parser_classes([FormParser, StrictJsonParser])
def device_token(request: Request) -> HttpResponse:
    """Poll for the result of a device login (RFC 8628, 3.4).

    Errors follow OAuth: authorization_pending, slow_down, access_denied, ...
    """
    try:
        body = parse(request, DeviceTokenRequest)
    except HubError as error:
        return oauth_error("invalid_request", error.message)
    except ParseError as error:
        return oauth_error("invalid_request", str(error.detail))
    if body.grant_type not in ("", DEVICE_GRANT):
        return oauth_error("unsupported_grant_type", f"use {DEVICE_GRANT}")
    now = timezone.now()
    try:
        limit_rate(key=f"device-token:{client_address(request)}", limit=600, per=timedelta(minutes=10), now=now)
        return _no_store(answer(exchange_device_code(device_code=body.device_code, now=now)))
    except DeviceError as error:
        return oauth_error(error.code, error.message)
    except HubError as error:
        return error_answer(error)


def oauth_error(code: str, message: str) -> HttpResponse:
    """Return an OAuth error response (RFC 6749, 5.2)."""
    return _no_store(answer(DeviceTokenError(error=code, error_description=message), status=400))


def _no_store(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "no-store"
    return response
