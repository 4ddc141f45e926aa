"""Users, teams and the one namespace of owners, with API tokens and ways of signing in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models

from hub.core.ids import new_id

slug_validator = RegexValidator(
    r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z", "lower-case letters, digits and inner dashes"
)


class User(AbstractUser):
    """A person. `username` is also the slug of the user's own Owner."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    username = models.CharField(max_length=64, unique=True, validators=[slug_validator])

    unread = models.PositiveIntegerField(default=0, db_default=0)  # hub.notices; here, since every page shows it

    session_epoch = models.PositiveIntegerField(default=0, db_default=0)  # raised: all sessions from before are over

    admin_rights_given = True  # False on the user object of an API token that lacks the admin scope

    only_owner: UUID | None = None  # on the user object of an API token for one owner: it acts for no other

    @property
    def is_administrator(self) -> bool:
        """Whether this request may do and see everything."""
        return self.is_active and self.is_superuser and self.admin_rights_given and self.only_owner is None

    def get_session_auth_hash(self) -> str:
        """What a session holds and must go on to match: it changes with the password, and with the epoch."""
        return self._in_epoch(super().get_session_auth_hash())

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        """The same by each former key of the hub."""
        yield from map(self._in_epoch, super().get_session_auth_fallback_hash())

    def _in_epoch(self, digest: str) -> str:
        return f"{digest}.{self.session_epoch}" if self.session_epoch else digest


class OwnerKind(models.TextChoices):
    """What stands behind an owner."""

    USER = "user"
    TEAM = "team"


class Owner(models.Model):
    """A namespace: environments, models and runs belong to an owner."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=64, unique=True, validators=[slug_validator])
    kind = models.CharField(max_length=8, choices=OwnerKind, default=OwnerKind.USER)
    user = models.OneToOneField(User, null=True, blank=True, on_delete=models.CASCADE, related_name="owner")
    display_name = models.CharField(max_length=100, blank=True, default="", db_default="")  # of a team
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="owner_user_iff_kind_user",
                condition=models.Q(kind="user", user__isnull=False) | models.Q(kind="team", user__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return self.slug


class Role(models.TextChoices):
    """What a member may do for an owner; each may also do what those before it may."""

    READER = "reader"
    MEMBER = "member"
    MAINTAINER = "maintainer"
    OWNER = "owner"

    def includes(self, other: Role) -> bool:
        """Whether it may do what `other` may."""
        order = list(Role)
        return order.index(self) >= order.index(other)

    @property
    def grants(self) -> tuple[Role, ...]:
        """The roles that it gives and takes: an owner all, a maintainer those below its own."""
        return {Role.OWNER: tuple(Role), Role.MAINTAINER: (Role.READER, Role.MEMBER)}.get(self, ())


class Membership(models.Model):
    """Who acts for an owner. A user has the role `owner` in the own namespace."""

    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.MEMBER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user_id}@{self.owner_id}"


class OwnerQuota(models.Model):
    """What an administrator has set for one owner. None: the hub's figure for everybody; 0: no limit."""

    owner = models.OneToOneField(Owner, primary_key=True, on_delete=models.CASCADE, related_name="quota")
    running = models.PositiveIntegerField(null=True, blank=True)  # runs of each kind that workers may have at once
    gpu_hours = models.FloatField(null=True, blank=True)  # of 30 days
    tokens = models.PositiveBigIntegerField(null=True, blank=True)  # of 30 days
    storage_gb = models.FloatField(null=True, blank=True)  # 10^9 bytes
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"quota of {self.owner_id}"


class TeamInvitation(models.Model):
    """A single-use link that makes whoever accepts it a member of a team; kept hashed. One by mail has an address."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role, default=Role.MEMBER)
    mail = models.EmailField(blank=True, default="", db_default="")  # where the link was sent
    sent_at = models.DateTimeField(null=True, blank=True)  # when the mail server took it last
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)  # accepted or revoked

    def __str__(self) -> str:
        return f"invitation to {self.owner_id}"


class ApiToken(models.Model):
    """A bearer token of a user. Only its SHA-256 is kept; `prefix` lets people tell tokens apart."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    owner = models.ForeignKey(Owner, null=True, blank=True, on_delete=models.CASCADE, related_name="+")  # the only one
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["user", "-id"], name="token_by_user")]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"

    def is_live(self, now: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class DeviceDecision(models.TextChoices):
    """What the person at the browser said to a device."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"  # the device has fetched its token: never again


class DeviceLogin(models.Model):
    """One device authorization (RFC 8628). The device code is kept hashed; the user code is short-lived and typed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    device_digest = models.CharField(max_length=64, unique=True)
    user_code = models.CharField(max_length=9, unique=True)
    client_name = models.CharField(max_length=100, blank=True)
    scopes = models.JSONField(default=list)
    decision = models.CharField(max_length=8, choices=DeviceDecision, default=DeviceDecision.PENDING)
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    interval = models.PositiveIntegerField(default=5)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(db_index=True)
    last_polled_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.user_code


class LinkPurpose(models.TextChoices):
    """What a link is good for; one does not stand in for another."""

    SIGN_IN = "sign_in"
    INVITATION = "invitation"  # sets a password without the old one


class LoginLink(models.Model):
    """A single-use, short-lived link that signs `user` in; kept hashed."""

    digest = models.CharField(max_length=64, primary_key=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    purpose = models.CharField(max_length=10, choices=LinkPurpose, default=LinkPurpose.SIGN_IN)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    mail = models.CharField(max_length=254, blank=True, default="", db_default="")  # where it was sent

    def __str__(self) -> str:
        return f"login link of {self.user_id}"


class RateCount(models.Model):
    """How often something was tried in the window that ends at `ends_at`; shared by all hub processes."""

    key = models.CharField(max_length=200, primary_key=True)
    count = models.PositiveIntegerField(default=0)
    ends_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.key}: {self.count}"


class SignIn(models.Model):
    """A session of a user, for the page that lists them; whether it still lives is known by Django's own row."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    session_key = models.CharField(max_length=40, unique=True)
    address = models.CharField(max_length=45, blank=True)  # of the client, when it began
    browser = models.CharField(max_length=200, blank=True)  # as it called itself
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["user", "-id"], name="sign_in_by_user")]

    def __str__(self) -> str:
        return f"{self.user_id} from {self.address}"
