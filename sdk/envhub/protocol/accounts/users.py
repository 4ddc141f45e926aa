"""Wire types of accounts: the caller, API tokens, device login (RFC 8628)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from envhub.protocol.base import Request, Response, Slug


class Scope(StrEnum):
    """What a token may do. Only tokens of administrators can have `admin`."""

    READ = "read"
    WRITE = "write"
    INFERENCE = "inference"
    ADMIN = "admin"


class WhoAmI(Response):
    """The caller."""

    user: Slug
    owners: tuple[Slug, ...]
    scopes: tuple[Scope, ...]
    is_admin: bool = False


class TokenRequest(Request):
    """Create an API token."""

    name: str = Field(min_length=1, max_length=100)
    scopes: tuple[Scope, ...] = (Scope.READ, Scope.WRITE, Scope.INFERENCE)
    expires_in_days: int | None = Field(default=365, ge=1, le=3650)
    owner: Slug | None = None  # the only one that it acts for; None: all of the caller's


class TokenView(Response):
    """A token without its secret."""

    id: str
    name: str
    prefix: str
    scopes: tuple[Scope, ...]
    owner: Slug | None = None  # the only one that it acts for
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked: bool


class TokenCreated(Response):
    """A new token. Only this response contains the token itself."""

    token: str
    view: TokenView


class DeviceCode(Response):
    """A device authorization response (RFC 8628, section 3.2)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class DeviceToken(Response):
    """A successful token response (RFC 8628, section 3.5)."""

    access_token: str
    token_type: str = "bearer"
    expires_in: int | None = None


class DeviceTokenError(Response):
    """An error response (RFC 8628, section 3.5; RFC 6749, section 5.2). The status is always 400."""

    error: str  # authorization_pending, slow_down, access_denied, expired_token, invalid_request, ...
    error_description: str = ""


class DeviceCodeRequest(Response):
    """A device authorization request (RFC 8628, section 3.1), as JSON or form-encoded.

    Unknown parameters are ignored, as RFC 6749 requires.
    """

    client_id: str = Field(default="envhub", max_length=100)
    client_name: str = Field(default="", max_length=100)  # shown to the person who approves, such as the host name
    scope: str = Field(default="", max_length=200)  # space-separated; empty means read, write and inference


class DeviceTokenRequest(Response):
    """A device token request (RFC 8628, section 3.4)."""

    device_code: str = Field(max_length=200)
    grant_type: str = ""
    client_id: str = ""


class UserView(Response):
    """A user, as administrators see it."""

    name: Slug
    is_admin: bool
    is_active: bool
    joined_at: datetime
    last_login: datetime | None = None
    invited: bool = False  # has neither signed in nor set a password yet


class UserChange(Request):
    """Changes that an administrator can make to a user."""

    is_active: bool  # False: password, sessions, tokens and devices are refused until it is True again


class InvitationRequest(Request):
    """Invite a person: create the user, and a one-time link for setting a password."""

    name: Slug
    is_admin: bool = False
    reset: bool = False  # for an existing account: a link for setting a new password
    mail: str | None = Field(default=None, max_length=254)  # where the hub sends the link
    valid_days: int = Field(default=7, ge=1, le=30)


class InvitationCreated(Response):
    """A new invitation. Only this response contains the link."""

    user: UserView
    url: str
    expires_at: datetime
    is_sent: bool = False  # the mail server has accepted it
