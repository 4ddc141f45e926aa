"""Making users with their namespace, and the system owner."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import datetime

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from hub.accounts.models import (
    ApiToken,
    DeviceDecision,
    DeviceLogin,
    Membership,
    Owner,
    OwnerKind,
    Role,
    User,
    slug_validator,
)
from hub.accounts.queries import SYSTEM_OWNER
from hub.core.errors import Conflict, HubError, Invalid, NotAllowed

NUMBERED = 20  # names that are tried before a random one
SLUG_ROOM = 48  # letters of a name that is made up: a number fits behind them

RESERVED_SLUGS = frozenset(
    {
        SYSTEM_OWNER,
        "admin",
        "administration",
        "anonymous",
        "api",
        "cli",
        "data",
        "deployments",
        "device",
        "docs",
        "environments",
        "evaluations",
        "healthz",
        "hf",
    }
    | {
        "index",
        "inference",
        "invitation",
        "join",
        "login",
        "logout",
        "mail",
        "notifications",
        "me",
        "metrics",
        "models",
        "new",
        "outside",
        "shared",
        "owners",
        "password",
        "prime",
        "readyz",
        "root",
        "rollouts",
        "runs",
        "sandboxes",
    }
    | {"search", "secrets", "settings", "signup", "static", "system", "teams", "tokens", "training", "users", "workers"}
)


def create_user(*, username: str, password: str | None = None, is_superuser: bool = False) -> User:
    """Make a user, the owner of the same name and the owner's membership. Raises Invalid, Conflict (name taken)."""
    user = User(username=username, is_superuser=is_superuser, is_staff=is_superuser)
    check_free(username, allow_admin=is_superuser)
    if password is not None:
        _check_password(user, password)
    user.set_password(password)
    return register_user(user=user)


def register_user(*, user: User) -> User:
    """Save a new user with the owner of the same name and the owner's membership. Raises Invalid, Conflict."""
    check_free(user.username, allow_admin=user.is_superuser)
    with transaction.atomic():
        user.save(force_insert=True)
        owner = Owner.objects.create(slug=user.username, kind=OwnerKind.USER, user=user)
        Membership.objects.create(owner=owner, user=user, role=Role.OWNER)
        if user.is_superuser:
            system_owner()  # an administrator fills it: where `serve` is not used, nothing else makes it
    return user


def check_free(username: str, *, allow_admin: bool = False) -> None:
    """Raises Invalid for what can be no user's name, Conflict for a name that a user or a team has."""
    check_slug(username, field="username", what="user name", allow_admin=allow_admin)
    if Owner.objects.filter(slug=username).exists() or User.objects.filter(username=username).exists():
        raise Conflict(f"the name {username} is taken", code="name_taken")


def free_name(proposals: Iterable[str]) -> str:
    """The first proposal, as a slug, that nobody has; else the first with a number, else a random one."""
    slugs = [slug for text in proposals if (slug := _slug(text))] or ["user"]
    numbered = (f"{slugs[0]}-{number}" for number in range(2, NUMBERED))
    for name in (*slugs, *numbered):
        try:
            check_free(name)
        except HubError:
            continue
        return name
    return f"{slugs[0]}-{secrets.token_hex(4)}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.partition("@")[0].lower())[:SLUG_ROOM].strip("-")


def check_slug(slug: str, *, field: str, what: str, allow_admin: bool = False) -> None:
    """Raises Invalid, under `field`, for what can be no `what`, a name of an owner."""
    try:
        slug_validator(slug)
    except ValidationError as error:
        raise Invalid(f"{slug!r} is not a valid {what}: {error.messages[0]}", fields={field: slug}) from error
    if slug in RESERVED_SLUGS and not (allow_admin and slug == "admin"):
        raise Invalid(f"the name {slug} is reserved", fields={field: "reserved"})


def ensure_user(*, username: str, is_superuser: bool = False) -> User:
    """The user of that name, made (without a password) if need be. For automation; raises Invalid."""
    user = User.objects.filter(username=username).first()
    return user or create_user(username=username, is_superuser=is_superuser)


def system_owner() -> Owner:
    """The owner `hub`, which holds what the hub itself brings (`hub/tiny`)."""
    return Owner.objects.get_or_create(slug=SYSTEM_OWNER, defaults={"kind": OwnerKind.TEAM})[0]


def set_password(*, user: User, current: str, new: str) -> User:
    """Change a password, or set the first one of a user who came by a login link. Raises NotAllowed, Invalid."""
    if user.has_usable_password() and not user.check_password(current):
        raise NotAllowed("the current password is wrong", code="wrong_password", hint="ask for a login link instead")
    _check_password(user, new)
    user.set_password(new)
    user.save(update_fields=["password"])
    return user


def confirm_address(*, user: User, mail: str) -> None:
    """The user has read mail there. An address that is another's, who confirmed it, stays theirs."""
    others = EmailAddress.objects.filter(email=mail)
    if not mail or others.filter(verified=True).exclude(user=user).exists():
        return
    others.exclude(user=user).delete()
    row, _ = EmailAddress.objects.get_or_create(user=user, email=mail)
    row.set_verified()
    row.set_as_primary(conditional=True)


def set_first_password(*, user: User, password: str) -> User:
    """The password of somebody who came by an invitation. Raises Invalid."""
    _check_password(user, password)
    user.set_password(password)
    user.save(update_fields=["password"])
    return user


def end_access(*, user: User, now: datetime) -> None:
    """End the password and the second factor, sessions (bound to the password's hash), API tokens, waiting devices."""
    user.set_unusable_password()
    user.save(update_fields=["password"])
    ApiToken.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now)
    Authenticator.objects.filter(user=user).delete()
    _deny_devices(user)


def _deny_devices(user: User) -> None:
    """Take back what the user has approved and no device has used yet."""
    approved = DeviceLogin.objects.filter(user=user, decision=DeviceDecision.APPROVED)
    approved.update(decision=DeviceDecision.DENIED)


def disable_user(*, user: User, by: User) -> User:
    """Shut `user` out until enabled again: password, sessions, tokens, links and devices are refused meanwhile.

    What they made stays as it is. Again is a no-op. Raises Conflict for oneself, so that one administrator remains.
    """
    if user.pk == by.pk:
        raise Conflict("you cannot disable yourself", code="own_account", hint="ask another administrator")
    with transaction.atomic():
        _set_active(user, active=False)
        _deny_devices(user)
    return user


def enable_user(*, user: User) -> User:
    """Let a disabled user in again, with the password and the tokens of before. Again is a no-op."""
    return _set_active(user, active=True)


def _set_active(user: User, *, active: bool) -> User:
    user.is_active = active
    user.save(update_fields=["is_active"])
    return user


def _check_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), fields={"password": error.messages[0]}) from error
