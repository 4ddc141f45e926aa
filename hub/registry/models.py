"""Environments, their immutable versions, pushes in progress, and the wheels of locks."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.visibility import Visibility
from packaging.utils import parse_wheel_filename

from hub.accounts.models import Owner, slug_validator
from hub.core.ids import new_id
from hub.runs.models import Run
from hub.storage.models import Blob

# Loaded only where a page shows them: a list of versions must not read READMEs and locks from the database.
HEAVY_VERSION_FIELDS = (
    *("readme", "files", "lock", "describe", "scripted_rollout", "eval_config", "hub_config"),
    *("tried", "check_settings", "origin"),
)


class Environment(models.Model):
    """`owner/name`, the home of a package's versions. Services maintain `latest` (the newest not yanked, PEP 440)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="environments")
    name = models.CharField(max_length=64, validators=[slug_validator])  # normalised as in PEP 503
    description = models.CharField(max_length=500, blank=True)
    visibility = models.CharField(
        max_length=8, choices=[(item.value, item.value) for item in Visibility], default=Visibility.PUBLIC.value
    )
    tags = models.JSONField(default=list)
    own_tags = models.JSONField(null=True, blank=True)  # set by a member; None: `tags` are those of the latest version
    latest = models.ForeignKey("Version", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    # Environments of this hub whose packages the latest version's lock has; updated with the card.
    depends_on = models.ManyToManyField("self", symmetrical=False, related_name="dependants")
    evaluations = models.PositiveIntegerField(default=0)  # number of public ones; updated with the card
    # Of 1000 groups of rollouts, how many would teach the best suited model, by a public evaluation; with the card.
    signal = models.PositiveSmallIntegerField(default=0, db_default=0)
    stars = models.PositiveIntegerField(default=0, db_default=0)  # maintained by registry.services.stars
    # The facts that lists show and filter by; the sweeper updates them from the latest version and the evaluations.
    kind = models.CharField(max_length=12, blank=True, default="", db_default="")  # registry.facts.Kind
    examples = models.PositiveBigIntegerField(null=True, blank=True)  # of the split that is evaluated by default
    uses_sandbox = models.BooleanField(default=False, db_default=False)
    lacks = models.BooleanField(default=False, db_default=False)  # whether the latest version has unmet needs
    card = models.JSONField(default=dict, db_default={})  # registry.cards.Cards
    ranked_publicly = models.BooleanField(default=False, db_default=False)  # whether everybody sees a leaderboard
    ranked_privately = models.BooleanField(default=False, db_default=False)  # whether its owner's members see one
    card_stale = models.BooleanField(default=True, db_default=True)
    archived = models.BooleanField(default=False, db_default=False)  # read-only, and not listed
    search_text = models.TextField(
        editable=False
    )  # lower-case "owner/name description tags"; trigram index on Postgres
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(default=timezone.now)  # last change of anything that the index or the page shows

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="environment_once")]
        indexes = [
            models.Index(fields=["owner", "-id"], name="environment_by_owner"),
            models.Index(fields=["visibility", "-id"], name="environment_by_visibility"),
            models.Index(fields=["-stars", "-id"], name="environment_by_stars"),
            models.Index(fields=["-evaluations", "-id"], name="environment_by_evaluations"),
            models.Index(fields=["-signal", "-id"], name="environment_by_signal"),
            models.Index(fields=["-updated_at", "-id"], name="environment_by_change"),
            models.Index(fields=["id"], condition=models.Q(card_stale=True), name="environment_with_stale_card"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_public(self) -> bool:
        """Whether everybody may see it."""
        return self.visibility == Visibility.PUBLIC.value


class EvaluationCount(models.Model):
    """How many evaluations of an environment one owner has, by visibility. The number for each viewer is the sum of
    those they may see (`registry.cards.evaluations_seen`); one total would reveal that private ones exist."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+", db_index=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    visibility = models.CharField(max_length=8, choices=[(item.value, item.value) for item in Visibility])
    evaluations = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "owner", "visibility"], name="evaluation_count_once")
        ]

    def __str__(self) -> str:
        return f"{self.evaluations} {self.visibility}"


class FormerName(models.Model):
    """An address that an environment had before it was moved. It still leads there, and cannot be used for another."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="former_names")
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="former_name_once")]

    def __str__(self) -> str:
        return self.name


class Fork(models.Model):
    """Records that an environment began as a version of another."""

    environment = models.OneToOneField(Environment, primary_key=True, on_delete=models.CASCADE, related_name="fork")
    origin = models.ForeignKey(
        Environment, null=True, on_delete=models.SET_NULL, related_name="forks", db_index=False
    )  # None: the original was deleted
    reference = models.CharField(max_length=200)  # owner/name@version of the original, as it was called then

    class Meta:
        indexes = [models.Index(fields=["origin", "-environment"], name="fork_by_origin")]

    def __str__(self) -> str:
        return self.reference


class Star(models.Model):
    """A user's star on an environment."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "environment"], name="star_once")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.environment_id}"


class Again(models.TextChoices):
    """Why the running checks of a version must be repeated when they have ended."""

    NO = "no"
    MET = "met"  # something that they may lack has arrived; not repeated if all pass
    ASKED = "asked"  # a person asked for it, perhaps with other settings


class Version(models.Model):
    """One immutable version: what was pushed never changes, what the build found is added."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="versions")
    version = models.CharField(max_length=64)  # normalised as in PEP 440
    canonical = models.CharField(
        max_length=64
    )  # without trailing zeros: 1.0 and 1.0.0 are the same version to every installer
    state = models.CharField(
        max_length=8, choices=[(item.value, item.value) for item in VersionState], default=VersionState.BUILDING.value
    )
    yanked_at = models.DateTimeField(null=True, blank=True)
    yank_reason = models.CharField(max_length=500, blank=True)

    # What was pushed.
    wheel = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    wheel_filename = models.CharField(max_length=255)
    sdist = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    sdist_filename = models.CharField(max_length=255)
    metadata = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")  # the wheel's METADATA (PEP 658)
    content_digest = models.CharField(max_length=64)  # over the members of both archives, without their timestamps
    summary = models.CharField(max_length=500, blank=True)
    requires_python = models.CharField(max_length=255, blank=True)
    license = models.CharField(max_length=255, blank=True)
    dependencies = models.JSONField(default=list)
    module = models.CharField(max_length=255)  # import name of the entry module
    tags = models.JSONField(default=list)
    readme = models.TextField(blank=True)
    changes = models.TextField(blank=True, default="", db_default="")  # Markdown: by the push or its changelog
    files = models.JSONField(default=list)  # [[path, size], ...] of the sdist
    eval_config = models.JSONField(default=dict)  # [tool.verifiers.eval]
    hub_config = models.JSONField(default=dict)  # [tool.envhub]
    programs = models.JSONField(default=list)  # requirements that its tools start by `uvx`
    evidence = models.JSONField(null=True, blank=True)  # envhub.protocol.registry.packages.GenerationEvidence
    git = models.JSONField(null=True, blank=True)  # envhub.protocol.registry.packages.GitState
    origin = models.JSONField(null=True, blank=True)  # envhub.protocol.registry.packages.Origin, if it came in a bundle

    # What the build found.
    build_run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    lock = models.JSONField(null=True, blank=True)  # envhub.protocol.registry.builds.EnvironmentLock, without URLs
    lock_sha256 = models.CharField(max_length=64, blank=True)
    describe = models.JSONField(null=True, blank=True)  # envhub.protocol.runner.Description
    checks = models.JSONField(default=list)  # [envhub.protocol.registry.packages.Check, ...]
    tried = models.JSONField(default=list)  # [envhub.protocol.registry.packages.TriedRelease, ...]
    scripted_rollout = models.JSONField(null=True, blank=True)
    build_seconds = models.JSONField(default=dict)
    failure = models.JSONField(null=True, blank=True)  # envhub.protocol.runs.Failure: why it is invalid

    # The settings of its checks, and the latest run of the checks alone.
    check_settings = models.JSONField(null=True, blank=True)  # CheckSettings; None: those of its pyproject.toml
    granted = models.JSONField(default=list)  # [envhub.protocol.registry.needs.Need, ...] that these settings met
    check_run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    check_again = models.CharField(max_length=5, choices=Again, default=Again.NO)

    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "canonical"], name="version_once")]
        indexes = [models.Index(fields=["environment", "-id"], name="version_by_environment")]

    def __str__(self) -> str:
        return self.version

    @property
    def project(self) -> str:
        """The name under which installers know it: its environment's at the time of the push."""
        return str(parse_wheel_filename(self.wheel_filename)[0])

    @property
    def is_lock_open(self) -> bool:
        """Whether checks may still change the lock: no rollout of theirs has ever succeeded with it, and the lock did
        not come in a bundle."""
        rollout = self.scripted_rollout or {}
        return self.origin is None and bool(rollout.get("outcome", "failed") == "failed")

    @property
    def yanked(self) -> bool:
        """Whether resolution skips it."""
        return self.yanked_at is not None


class VersionNeed(models.Model):
    """Something that the checks of a version lack.

    When it arrives, this index leads to the versions that wait for it.
    """

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="needs")
    kind = models.CharField(max_length=16, choices=[(item.value, item.value) for item in NeedKind])
    name = models.CharField(max_length=500)
    opened = models.BooleanField(default=False)  # the operator has allowed it since, and it must be checked again

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "kind", "name"], name="version_need_once")]
        indexes = [
            models.Index(fields=["kind", "name"], name="version_need_by_name"),
            models.Index(fields=["version"], condition=models.Q(opened=True), name="version_need_opened"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class VersionUse(models.Model):
    """Something that the checks of a version have loaded, which a bundle of it must contain."""

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="uses")
    kind = models.CharField(max_length=16, choices=[(item.value, item.value) for item in NeedKind])
    name = models.CharField(max_length=1000)
    revision = models.CharField(max_length=40, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "kind", "name", "revision"], name="version_use_once")]
        indexes = [models.Index(fields=["name", "-id"], name="version_use_by_name")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class KnownHost(models.Model):
    """An entry of a setting that allows hosts, for which the versions that need it have already been marked."""

    setting = models.CharField(max_length=64)
    entry = models.CharField(max_length=500)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["setting", "entry"], name="known_host_once")]

    def __str__(self) -> str:
        return f"{self.setting} {self.entry}"


class Push(models.Model):
    """A push between its two calls.

    Its claims are only used to find the blobs; everything else comes from the archives.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)
    request = models.JSONField()  # envhub.protocol.registry.packages.PushRequest
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    # Set when done.
    version = models.ForeignKey(Version, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    made_it = models.BooleanField(default=False)  # whether this push created the version

    def __str__(self) -> str:
        return f"{self.name} {self.id}"


class SourceUpload(models.Model):
    """A folder's archive uploaded by a user, and the build run in which a worker makes packages from it."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="+")
    archive = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # None: no longer needed
    filename = models.CharField(max_length=255)
    folder = models.CharField(max_length=255, blank=True)  # the folder of its pyproject.toml, in the archive
    name = models.CharField(max_length=64)  # the project's name
    requires_python = models.CharField(max_length=255, blank=True)
    visibility = models.CharField(max_length=8, blank=True)  # envhub.protocol.visibility; empty: as it is
    message = models.TextField(blank=True, default="", db_default="")  # of the push
    version = models.ForeignKey(Version, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    def __str__(self) -> str:
        return self.filename


class StoredWheel(models.Model):
    """A wheel in some lock, kept so that versions can still be built after it was deleted upstream."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    filename = models.CharField(max_length=255)
    name = models.CharField(max_length=128)  # normalised as in PEP 503
    version = models.CharField(max_length=64)
    built_from_source = models.BooleanField(default=False)
    shared = models.BooleanField(default=False)  # whether other owners' builds may use it; see services.wheels
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["blob", "filename"], name="stored_wheel_once")]
        indexes = [models.Index(fields=["name", "version"], name="stored_wheel_by_release")]

    def __str__(self) -> str:
        return self.filename


class SourceBuild(models.Model):
    """The wheel built from a source. The key is SHA-256(source, locked build requirements, python, platform)."""

    key = models.CharField(max_length=64, primary_key=True)
    wheel = models.ForeignKey(StoredWheel, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.key[:12]
