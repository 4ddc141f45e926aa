"""The build run on the wire: what the worker is given and what it reports."""

from __future__ import annotations

from pydantic import Field

from envhub.protocol.base import BlobRef, BoxObject, Number, Request, Response, Sha256, Size, Slug
from envhub.protocol.models.catalog import EndpointTarget
from envhub.protocol.registry.needs import CheckSettings
from envhub.protocol.registry.packages import Check, Generation, GenerationEvidence, PushFile, TriedRelease
from envhub.protocol.runs import Failure


class LockedWheel(Response):
    """One installed distribution of a lock. The hub's wheel store has its bytes under `sha256`."""

    name: str
    version: str
    filename: str
    sha256: Sha256
    size: Size
    built_from_source: bool = False
    owned: bool = False  # from the owner's own index, or the environment itself: never shared with other owners
    url: str | None = None  # presigned, only inside payloads
    source: str = ""  # a direct reference's: "git+https://host/repository@commit", "https://host/x.whl#sha256=..."
    tool: str = ""  # "" in the environment itself; else the `uvx` requirement, or LockedScript.tool, that it is for


class LockedScript(Response):
    """Metadata of a script (PEP 723) that the package's files hold, and the environment of what it declares."""

    metadata: Sha256  # of its text, without the comment signs
    tool: str  # the name of the environment, shared by scripts with the same dependencies
    path: str  # the file that has it
    problem: str = ""  # why there is no such environment


class EnvironmentLock(Response):
    """What every later run installs, exactly. Its hash over wheels, python, platform names the virtual environment."""

    python: str  # "3.11"
    platform: str  # a wheel platform tag, e.g. "linux_x86_64"
    verifiers: str  # the release that was chosen, "" when the package does not use it
    wheels: tuple[LockedWheel, ...]
    references: dict[str, str] = Field(default_factory=dict)  # direct references as written -> as they were pinned
    scripts: tuple[LockedScript, ...] = ()


class BuildPayload(Response):
    """`Claim.payload` of a build run."""

    version_id: str
    owner: Slug
    name: Slug
    version: str
    module: str  # import name of the entry module
    requires_python: str
    wheel: BlobRef
    wheel_filename: str
    sdist: BlobRef
    evidence: GenerationEvidence
    dependencies: tuple[str, ...]
    owner_index_url: str  # <hub>/index/<owner>/simple/ with credentials of the run token
    stored_index_url: str = ""  # an index of the wheels that earlier locks used; same credentials
    has_readme: bool
    settings: CheckSettings = CheckSettings()  # its defaults of pyproject.toml, and what people gave since
    secrets: dict[str, str] = Field(default_factory=dict)  # of `settings.secrets`: injected into the box
    judges: dict[str, EndpointTarget] = Field(default_factory=dict)  # of `settings.judges`
    git_hosts: tuple[str, ...] = ()  # where direct references may lead
    git_mirrors: dict[str, str] = Field(default_factory=dict)  # beginning of an address -> what is fetched instead
    only_checks: bool = False  # install `previous` as it is, and check again: a need was met
    lock_is_open: bool = False  # with `previous` no rollout has succeeded yet: another release may take its place
    keeps_lock: bool = False  # install `previous` as it is wherever it fits: the version came with it, in a bundle
    tool_programs: tuple[str, ...] = ()  # requirements that `uvx`-started tools name, resolved at build time
    previous: EnvironmentLock | None = None  # of an earlier build, presigned: used when the index lost a release since


class SourcePayload(Response):
    """`Claim.payload` of a build run whose package is not made yet: of an uploaded folder come a wheel and an sdist."""

    source: BlobRef  # a .zip or .tar.gz
    filename: str  # as it was uploaded, for messages
    folder: str  # of its pyproject.toml; "": the archive's top
    name: Slug  # of the project
    requires_python: str = ""


class SourcePacked(Request):
    """What a worker made of an uploaded folder; both files were uploaded as blobs."""

    version: str = Field(max_length=64)
    wheel: PushFile
    sdist: PushFile


class BuildReport(Request):
    """The worker's result. The version becomes `ready` when `failure` is None (whatever its checks found), else
    `invalid`."""

    generation: Generation | None = None
    verifiers: str = ""
    lock: EnvironmentLock | None = None
    describe: BoxObject | None = None
    checks: tuple[Check, ...] = ()
    tried: tuple[TriedRelease, ...] = ()
    failure: Failure | None = None
    scripted_rollout: BoxObject | None = None  # a RolloutRecord
    seconds: dict[str, Number] = Field(default_factory=dict)  # stage -> wall seconds
