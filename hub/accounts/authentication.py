"""DRF authentication by API token: `Authorization: Bearer hub_...`, or HTTP basic with the token as password."""

from __future__ import annotations

import base64
import binascii

from django.http import HttpRequest
from django.utils import timezone
from envhub.protocol.accounts.users import Scope
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from hub.accounts.models import ApiToken, User
from hub.accounts.queries import live_token
from hub.accounts.services import note_token_use
from hub.accounts.services.tokens import TOKEN_PREFIX
from hub.core.errors import NotAuthenticated
from hub.core.requests.traces import trust_caller

_OTHER_PREFIXES = ("hubw_", "hubr_")  # hub.runs authenticates these


def bearer(request: Request) -> str:
    """The bearer token of the request, or "". Raises NotAuthenticated when the header is malformed."""
    scheme, _, value = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        return ""
    value = value.strip()
    if not value or " " in value:
        raise NotAuthenticated("the Authorization header is malformed")
    return str(value)


def user_of_token(secret: str) -> tuple[User, ApiToken]:
    """The user and token that `secret` stands for; notes the use. Raises NotAuthenticated."""
    now = timezone.now()
    token = live_token(secret, now=now)
    note_token_use(token=token, now=now)
    token.user.admin_rights_given = Scope.ADMIN in token.scopes
    token.user.only_owner = token.owner_id
    trust_caller()
    return token.user, token


class TokenAuthentication(BaseAuthentication):
    """Bearer tokens; a bad one is 401, never anonymous. A caller without a token falls through to the session."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The user and the token of the request, or None."""
        secret = bearer(request)
        if not secret or secret.startswith(_OTHER_PREFIXES):
            return None
        if not secret.startswith(TOKEN_PREFIX):
            raise NotAuthenticated("this is not a token of this hub", hint="API tokens begin with hub_")
        return user_of_token(secret)

    def authenticate_header(self, request: Request) -> str:
        """What a 401 answer asks for."""
        return 'Bearer realm="hub"'


def basic_password(request: Request | HttpRequest) -> str:
    """The password of HTTP basic credentials, or "". Raises NotAuthenticated when malformed."""
    scheme, _, value = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NotAuthenticated("the Authorization header is malformed") from error


class BasicTokenAuthentication(BaseAuthentication):
    """HTTP basic for package installers: any user name, an API token as the password."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The user and the token of the request, or None."""
        secret = basic_password(request)
        if not secret or secret.startswith(_OTHER_PREFIXES):
            return None
        return user_of_token(secret)

    def authenticate_header(self, request: Request) -> str:
        """Makes pip ask for credentials."""
        return 'Basic realm="hub"'
