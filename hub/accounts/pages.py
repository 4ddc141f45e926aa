"""Signing in and out, the device approval page, the token page and the password page."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from allauth.core.exceptions import ReauthenticationRequired
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth import login as start_session
from django.contrib.auth import logout as end_session
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST
from envhub.protocol.accounts.users import Scope

from hub.accounts.chosen_owner import chosen_team
from hub.accounts.client_address import client_address
from hub.accounts.models import Role, User
from hub.accounts.queries import get_token, member_owners, own_or_team, tokens_of, waiting_device
from hub.accounts.relying_party import obstacle_here
from hub.accounts.services import (
    create_token,
    decide_device,
    find_linked,
    keep_session,
    limit_login,
    limit_rate,
    revoke_token,
    set_password,
    use_link,
)
from hub.accounts.services.devices import clean_user_code
from hub.accounts.services.signup import may_choose_password, may_sign_up, waiting_invitation
from hub.accounts.signing_in import must_confirm, sign_in_by_password
from hub.core.errors import HubError, NotAllowed, NotFound
from hub.core.ids import GivenId
from hub.core.pages import page, refusal

BACKEND = "django.contrib.auth.backends.ModelBackend"
KNOWN_BROWSER = "known_browser"  # its cookie only spares a user the pause that guesses at the name cause
LIFETIMES = (7, 30, 90, 365)  # days that the token page offers


def _safe_next(request: HttpRequest) -> str:
    """Where to go after signing in: a path of this hub, nothing else."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if safe else "/"


@never_cache
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """User name and password; tries are limited (see hub.accounts.services.limits)."""
    if request.user.is_authenticated:
        return HttpResponseRedirect(_safe_next(request))
    name = request.POST.get("username", "")
    context = {"next": _safe_next(request), "username": name, "hub": settings.HUB}
    context["is_new"] = not User.objects.filter(last_login__isnull=False).exists()
    context["passkeys"] = not obstacle_here()
    context["invitation"] = waiting_invitation(_safe_next(request))
    context["may_sign_up"] = may_sign_up(next_path=_safe_next(request))
    context["may_choose_password"] = may_choose_password(next_path=_safe_next(request))
    if request.method == "GET":
        return render(request, "accounts/login.html", context)
    try:
        if not settings.HUB.password_login:
            raise NotAllowed("this hub does not accept passwords", hint=f"use {settings.HUB.oidc_name}")
        limit_login(name=name, address=client_address(request), known_browser=knows(request, name))
    except HubError as error:
        answer = render(request, "accounts/login.html", context | {"error": error}, status=error.status)
        return refusal(answer, error)
    user = authenticate(request, username=name, password=request.POST.get("password", ""))
    if user is None:
        wrong = HubError("the name or the password is wrong", code="wrong_password")
        return render(request, "accounts/login.html", context | {"error": wrong}, status=401)
    answer = sign_in_by_password(request, user, redirect_url=_safe_next(request))
    return _remember(answer, user.get_username())


def knows(request: HttpRequest, name: str) -> bool:
    """Whether somebody has signed in as `name` with this browser before."""
    return bool(name) and request.get_signed_cookie(KNOWN_BROWSER, default="", salt=KNOWN_BROWSER) == name


def _remember(response: HttpResponse, name: str) -> HttpResponse:
    response.set_signed_cookie(
        KNOWN_BROWSER,
        name,
        salt=KNOWN_BROWSER,
        max_age=timedelta(days=365),
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
        path="/login",
    )
    return response


@never_cache
def admin_login(request: HttpRequest) -> HttpResponse:
    """In the place of the login of Django's admin, which limits no guessing."""
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(_safe_next(request))


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """End the session."""
    end_session(request)
    return redirect("/login")


@page
@never_cache
@require_http_methods(["GET", "POST"])
def login_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Sign in with a one-time link, which only the button spends: programs that look at links press none.

    A spent, expired or mistyped one is 404, with how to get another.
    """
    limit_rate(key=f"login-link:{client_address(request)}", limit=30, per=timedelta(minutes=5))
    if request.method == "GET":
        return render(request, "accounts/login_link.html", {"linked": find_linked(secret=secret)})
    user = use_link(secret=secret)
    start_session(request, user, backend=BACKEND)
    return HttpResponseRedirect(_safe_next(request))


@never_cache
@login_required
@require_http_methods(["GET", "POST"])
def device(request: HttpRequest) -> HttpResponse:
    """Approve or deny a device that waits with a short code (RFC 8628, 3.3). Guessing codes is rate-limited.

    A device gets a token that outlives the session, so whoever approves shows first who they are, as for other tokens.
    """
    user = cast("User", request.user)
    typed = request.POST.get("user_code") or request.GET.get("user_code") or ""
    context: dict[str, object] = {"user_code": clean_user_code(typed) if typed else ""}
    now = timezone.now()
    try:
        if typed:
            limit_rate(key=f"device-page:{user.pk}", limit=20, per=timedelta(minutes=10), now=now)
        decision = request.POST.get("decision", "")
        if decision in ("approve", "deny"):
            if (approve := decision == "approve") and must_confirm(request):
                raise ReauthenticationRequired
            context["decided"] = decide_device(user=user, user_code=typed, approve=approve, now=now)
        elif typed:
            context["device"] = waiting_device(clean_user_code(typed), now=now)
            if context["device"] is None:
                raise NotFound("no device is waiting for this code", hint="codes expire after ten minutes")
            if must_confirm(request):
                raise ReauthenticationRequired
    except HubError as error:  # what was typed stays as it was typed, so that the mistake can be seen
        context |= {"error": error, "user_code": typed[:20]}
        return refusal(render(request, "accounts/device.html", context, status=error.status), error)
    return render(request, "accounts/device.html", context)


@page
@never_cache
@login_required
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponseBase:
    """The user's API tokens; making one shows its secret once, in the answer to the form."""
    user = cast("User", request.user)
    context: dict[str, object] = {"section": "settings", "scopes": _grantable(user), "lifetimes": LIFETIMES}
    context["must_confirm"] = must_confirm(request)
    if request.method == "POST":
        if context["must_confirm"]:
            raise ReauthenticationRequired
        days = request.POST.get("days", "")
        wanted = [scope for scope in _grantable(user) if scope.value in request.POST.getlist("scopes")]
        context["secret"], context["created"] = create_token(
            user=user,
            name=(request.POST.get("name", "").strip() or "token")[:100],
            scopes=wanted,
            expires_in_days=int(days) if days.isdecimal() and int(days) in LIFETIMES else 90,
            owner=own_or_team(user, request.POST["owner"]) if request.POST.get("owner") else None,
        )
    team = chosen_team(request)
    context["owners"], context["owner"] = member_owners(user, Role.READER)[:100], team.slug if team else ""
    context["tokens"] = tokens_of(user)[:200]
    return render(request, "accounts/token_list.html", context)


def _grantable(user: User) -> list[Scope]:
    return [scope for scope in Scope if scope is not Scope.ADMIN or user.is_administrator]


@page
@login_required
@require_POST
def token_revoke(request: HttpRequest, token_id: GivenId) -> HttpResponse:
    """Revoke one of the user's tokens."""
    revoke_token(token=get_token(cast("User", request.user), token_id))
    return redirect("/settings/tokens")


@never_cache
@login_required
@require_http_methods(["GET", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Set or change one's password; other sessions end."""
    user = cast("User", request.user)
    context: dict[str, object] = {"section": "settings", "has_password": user.has_usable_password()}
    if request.method == "GET":
        return render(request, "accounts/password_change.html", context)
    try:
        limit_rate(key=f"password:{user.pk}", limit=10, per=timedelta(minutes=5))
        set_password(user=user, current=request.POST.get("current", ""), new=request.POST.get("new", ""))
    except HubError as error:
        return render(request, "accounts/password_change.html", context | {"error": error}, status=error.status)
    keep_session(request=request, user=user)
    return render(request, "accounts/password_change.html", context | {"has_password": True, "changed": True})
