"""Who may see what: owners, memberships, tokens. A thing that you may not see is NotFound."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypeAlias
from uuid import UUID

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from hub.accounts.acting import note_owner
from hub.accounts.models import (
    ApiToken,
    DeviceDecision,
    DeviceLogin,
    Membership,
    Owner,
    OwnerKind,
    Role,
    SignIn,
    TeamInvitation,
    User,
)
from hub.core.digests import sha256_hex
from hub.core.errors import NotAllowed, NotAuthenticated, NotFound
from hub.core.ids import GivenId, find_by_id

Caller: TypeAlias = User | AnonymousUser
SYSTEM_OWNER = "hub"


def visible_owners(user: Caller) -> QuerySet[Owner]:
    """The owners whose private things `user` sees: memberships; all of them for an administrator."""
    if not isinstance(user, User) or not user.is_active:
        return Owner.objects.none()
    if user.is_administrator:
        return Owner.objects.order_by("slug")
    return Owner.objects.filter(pk__in=_memberships(user).values("owner_id")).order_by("slug")


def _memberships(user: User) -> QuerySet[Membership]:
    """Return the user's memberships; those of a token for one owner are that one."""
    rows = Membership.objects.filter(user=user)
    return rows if user.only_owner is None else rows.filter(owner=user.only_owner)


def visible_owner_ids(user: Caller) -> QuerySet[Owner, UUID]:
    """The ids of `visible_owners`, for `owner_id__in=`: one subquery, no round trip."""
    return visible_owners(user).order_by().values_list("pk", flat=True)


class Owned(Protocol):
    """Anything that belongs to an owner."""

    @property
    def owner_id(self) -> UUID: ...


def inside_owners(user: Caller, rows: Iterable[Owned]) -> frozenset[UUID]:
    """The owners of `rows` whose private things `user` sees: one query for a whole list, none for visitors."""
    return frozenset(visible_owner_ids(user).filter(pk__in={row.owner_id for row in rows}))


def owner_ids(slug: str) -> list[UUID]:
    """The id of the owner `slug`, for `owner_id__in=`; none when there is none. A value instead of a join: the planner
    then knows how many rows are that owner's, and walks the list's own index instead of sorting them all."""
    return list(Owner.objects.filter(slug=slug).values_list("pk", flat=True))


def member_owners(user: Caller, role: Role) -> QuerySet[Owner]:
    """The owners for which `user` acts with at least `role`, by name; also an administrator's memberships only."""
    if not isinstance(user, User) or not user.is_active:
        return Owner.objects.none()
    roles = [item.value for item in Role if item.includes(role)]
    return Owner.objects.filter(pk__in=_memberships(user).filter(role__in=roles).values("owner_id")).order_by("slug")


def get_owner(user: Caller, slug: str) -> Owner:
    """The owner `slug` as one of its members (or an administrator) reaches it. Raises NotFound."""
    owner = visible_owners(user).filter(slug=slug).first()
    if owner is None:
        raise NotFound(f"the owner {slug} does not exist or is not yours", hint="`hub whoami` lists your owners")
    return owner


def own_or_team(user: User, slug: str) -> Owner:
    """The owner `slug` if the user is a member of it; for an administrator, too, only then. Raises NotFound."""
    owner = member_owners(user, Role.READER).filter(slug=slug).first()
    if owner is None:
        raise NotFound(f"you are not a member of {slug[:64]}", hint="`hub whoami` lists your owners")
    return owner


def find_owner(slug: str) -> Owner:
    """The owner `slug`, for public things: its existence is no secret. Raises NotFound."""
    owner = Owner.objects.filter(slug=slug).first()
    if owner is None:
        raise NotFound(f"the owner {slug} does not exist")
    return owner


def has_role(user: Caller, owner: Owner, role: Role) -> bool:
    """Whether `user` acts for `owner` with at least `role`."""
    own = role_of(user, owner)
    return own is not None and own.includes(role)


def role_of(user: Caller, owner: Owner) -> Role | None:
    """The role in which `user` acts for `owner`: an administrator as its owner, strangers in none."""
    if not isinstance(user, User) or not user.is_active:
        return None
    if user.is_administrator:
        return Role.OWNER
    membership = _memberships(user).filter(owner=owner).first()
    return Role(membership.role) if membership else None


def require_role(user: Caller, owner: Owner, role: Role = Role.MEMBER) -> None:
    """Raises NotAuthenticated without a user, NotAllowed below `role`. Look the thing up first: invisible is 404."""
    note_owner(owner)
    if has_role(user, owner, role):
        return
    if not user.is_authenticated:
        raise NotAuthenticated("sign in first", hint="`hub login`, or send an API token")
    raise NotAllowed(f"you need the role {role.value} in {owner.slug}")


def require_grant(user: Caller, team: Owner, *roles: Role) -> None:
    """Raises NotAllowed unless `user` may give and take these roles in the team, NotAuthenticated without a user."""
    require_role(user, team, Role.MAINTAINER)
    own = role_of(user, team)
    if beyond := [role for role in roles if own is None or role not in own.grants]:
        raise NotAllowed(
            f"you need the role {Role.OWNER.value} for {team.slug}: only owners can give or remove {beyond[0].value}"
        )


def visible_teams(user: Caller) -> QuerySet[Owner]:
    """The teams of `user` (an administrator: all), newest first, with `members` and the user's own `role`."""
    teams = visible_owners(user).filter(kind=OwnerKind.TEAM).exclude(slug=SYSTEM_OWNER)
    own = Membership.objects.filter(owner=OuterRef("pk"), user=user.pk).values("role")
    return teams.annotate(members=Count("memberships"), role=Subquery(own)).order_by("-pk")


def get_team(user: Caller, slug: str) -> Owner:
    """A team as `visible_teams` has it. Raises NotFound, also for a team of others."""
    team = visible_teams(user).filter(slug=slug).first()
    if team is None:
        raise NotFound(
            f"the team {slug[:64]} does not exist, or you are not a member", hint="`hub team list` shows yours"
        )
    return team


def members_of(team: Owner) -> QuerySet[User]:
    """The team's people, newest account first, each with the `role` there."""
    own = Membership.objects.filter(owner=team, user=OuterRef("pk")).values("role")
    return User.objects.filter(memberships__owner=team).annotate(role=Subquery(own)).order_by("-pk")


def open_invitations(team: Owner) -> QuerySet[TeamInvitation]:
    """Links that can still be accepted, and those by mail that are too old but can be sent again, newest first."""
    rows = _not_ended().filter(Q(expires_at__gt=timezone.now()) | ~Q(mail=""), owner=team)
    return rows.order_by("-pk")


def _not_ended() -> QuerySet[TeamInvitation]:
    rows = TeamInvitation.objects.select_related("owner", "created_by")
    return rows.filter(ended_at__isnull=True, created_by__is_active=True)


def get_invitation(team: Owner, invitation_id: GivenId) -> TeamInvitation:
    """One that is open. Raises NotFound, AmbiguousId."""
    found = find_by_id(open_invitations(team), invitation_id, str)
    if found is None:
        raise NotFound("the invitation does not exist or has expired")
    return found


def find_invitation(secret: str) -> TeamInvitation:
    """What a link is good for; looking does not spend it. Raises NotFound: unknown, accepted, revoked or too old."""
    found = _not_ended().filter(digest=sha256_hex(secret), expires_at__gt=timezone.now()).first()
    if found is None:
        raise NotFound("this invitation is no longer valid", hint="ask the person who invited you for a new one")
    return found


def joined_by(user: User, secret: str) -> Owner | None:
    """The team that a link led to, if it has ended and `user` is in: who opens it once more, or has just signed up."""
    rows = Owner.objects.filter(invitations__digest=sha256_hex(secret), invitations__ended_at__isnull=False)
    return rows.filter(memberships__user=user).first()


def first_team(user: User) -> Owner | None:
    """The team that somebody came into first: of who has signed up by an invitation, the one that invited."""
    own = Membership.objects.filter(user=user, owner__kind=OwnerKind.TEAM).exclude(owner__slug=SYSTEM_OWNER)
    membership = own.select_related("owner").order_by("pk").first()
    return membership.owner if membership else None


def all_users() -> QuerySet[User]:
    """Everybody, newest first; for administrators."""
    return User.objects.order_by("-pk")


def find_user(name: str) -> User:
    """A user by name, for administrators. Raises NotFound."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise NotFound(f"the user {name} does not exist", hint="`hub user list` shows all")
    return user


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """The user's tokens, newest first, revoked ones too."""
    return ApiToken.objects.filter(user=user).select_related("owner").order_by("-pk")


def live_token(secret: str, *, now: datetime) -> ApiToken:
    """The token that `secret` is, with its user. Raises NotAuthenticated when unknown, expired or revoked."""
    token = ApiToken.objects.select_related("user").filter(digest=sha256_hex(secret)).first()
    if token is None or not token.user.is_active or token.revoked_at is not None:
        raise NotAuthenticated("the API token is not valid", hint="create a new one: `hub login`")
    if not token.is_live(now):
        raise NotAuthenticated("the API token has expired", code="token_expired", hint="create a new one: `hub login`")
    return token


def live_token_ids(token_ids: Iterable[UUID], *, now: datetime) -> set[UUID]:
    """Those of the tokens that are neither expired nor revoked, of active users."""
    rows = ApiToken.objects.filter(pk__in=token_ids, revoked_at__isnull=True, user__is_active=True)
    return set(rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now)).values_list("pk", flat=True))


def get_token(user: User, token_id: GivenId) -> ApiToken:
    """One of the user's tokens. Raises NotFound, AmbiguousId."""
    token = find_by_id(ApiToken.objects.filter(user=user), token_id, str)
    if token is None:
        raise NotFound("the token does not exist")
    return token


def waiting_device(user_code: str, *, now: datetime) -> DeviceLogin | None:
    """The device that waits for a person's decision under this (cleaned) code."""
    waiting = DeviceLogin.objects.filter(decision=DeviceDecision.PENDING, expires_at__gt=now)
    return waiting.filter(user_code=user_code).first()


def second_factors(user: User) -> dict[str, int]:
    """How many authenticator apps ("totp") and passkeys ("webauthn") belong to the account; without those there are
    none of."""
    kinds = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
    rows = Authenticator.objects.filter(user=user, type__in=kinds).order_by()
    return dict(rows.values_list("type").annotate(Count("pk")))


def has_second_factor(user: User) -> bool:
    """Whether an authenticator app or a passkey does."""
    return bool(second_factors(user))


def addresses_of(user: User) -> QuerySet[EmailAddress]:
    """The user's mail addresses, the one that gets mail first."""
    rows: QuerySet[EmailAddress] = EmailAddress.objects.filter(user=user)
    return rows.order_by("-primary", "email", "pk")


def confirmed_address(user: User) -> str:
    """Where the user's mail goes; "" without a confirmed address."""
    return str(addresses_of(user).filter(verified=True).values_list("email", flat=True).first() or "")


def identities_of(user: User) -> QuerySet[SocialAccount]:
    """The accounts of the identity provider that sign this user in, oldest first."""
    rows: QuerySet[SocialAccount] = SocialAccount.objects.filter(user=user)
    return rows.order_by("pk")


def sign_ins_of(user: User) -> QuerySet[SignIn]:
    """The user's sessions that have not ended, newest first."""
    living = Session.objects.filter(pk=OuterRef("session_key"), expire_date__gt=timezone.now())
    return SignIn.objects.filter(Exists(living), user=user).order_by("-pk")
