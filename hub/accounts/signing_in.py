"""The last step of every sign-in by password, and whether somebody has shown lately who they are.

The one module that touches django-allauth's internals: it has no public name for what is recorded of a password.
"""

from __future__ import annotations

from allauth.account.internal.flows import login as login_flow
from allauth.account.internal.flows.login import record_authentication
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from allauth.account.models import Login
from allauth.account.utils import perform_login
from allauth.mfa.base.internal.flows import post_authentication
from allauth.mfa.models import Authenticator
from django.http import HttpRequest, HttpResponse

from hub.accounts.models import User
from hub.accounts.queries import addresses_of


def sign_in_by_password(request: HttpRequest, user: User, *, redirect_url: str) -> HttpResponse:
    """Start the session, or lead to what is missing: a second factor, a mail address that is confirmed.

    People whom an administrator invited may have no address; nothing is asked of them.
    """
    note_password(request, user)
    verification = None if addresses_of(user).exists() else "none"
    answer: HttpResponse = perform_login(request, user, email_verification=verification, redirect_url=redirect_url)
    return answer


def sign_in_by_passkey(request: HttpRequest, passkey: Authenticator, *, redirect_url: str) -> HttpResponse:
    """The same by a passkey alone, which is two factors in one: no other is asked."""
    user = passkey.user
    verification = None if addresses_of(user).exists() else "none"
    login = Login(user=user, email_verification=verification, redirect_url=redirect_url)
    post_authentication(request, passkey, passwordless=True, reauthenticated=True)
    answer: HttpResponse = login_flow.perform_login(request, login)
    return answer


def note_password(request: HttpRequest, user: User) -> None:
    """The session about to begin is one of a password, given or set just now: a second factor may be required of it."""
    record_authentication(request, user, method="password", username=user.username, reauthenticated=True)


def must_confirm(request: HttpRequest) -> bool:
    """Whether the password or a code is asked before this session may do what outlives it."""
    return bool(is_reauthentication_required(request, app="hub.accounts"))
