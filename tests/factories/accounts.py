"""Users, owners, API tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from envhub.protocol.accounts.users import Scope

from hub.accounts.models import Membership, Owner, OwnerKind, Role, User
from hub.accounts.services import create_token, create_user

_numbers = itertools.count(1)


def make_user(username: str | None = None, *, is_superuser: bool = False, password: str | None = None) -> User:
    """A user with the owner of the same name (`user.owner`)."""
    return create_user(username=username or f"user-{next(_numbers)}", password=password, is_superuser=is_superuser)


def make_owner(slug: str | None = None, *, members: Iterable[User] = (), role: Role = Role.MEMBER) -> Owner:
    """A team with these members."""
    owner = Owner.objects.create(slug=slug or f"team-{next(_numbers)}", kind=OwnerKind.TEAM)
    for user in members:
        Membership.objects.create(owner=owner, user=user, role=role)
    return owner


def make_token(user: User, *scopes: Scope) -> str:
    """The secret of a fresh API token; read, write and inference unless said otherwise."""
    wanted = scopes or (Scope.READ, Scope.WRITE, Scope.INFERENCE)
    return create_token(user=user, name="test", scopes=wanted)[0]


def bearer(secret: str) -> dict[str, str]:
    """`client.get(url, headers=bearer(secret))`."""
    return {"Authorization": f"Bearer {secret}"}
