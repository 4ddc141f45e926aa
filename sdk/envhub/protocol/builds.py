"""The build run on the wire: what the worker is given and what it reports."""

from __future__ import annotations

from pydantic import Field

from envhub.protocol.base import BlobRef, JsonObject, Request, Response, Sha256, Slug
from envhub.protocol.packages import Check, Generation, GenerationEvidence
from envhub.protocol.runs import Failure


class LockedWheel(Response):
    """One installed distribution of a lock. The hub's wheel store has its bytes under `sha256`."""

    name: str
    version: str
    filename: str
    sha256: Sha256
    size: int
    built_from_source: bool = False
    owned: bool = False  # from the owner's own index, or the environment itself: never shared with other owners
    url: str | None = None  # presigned, only inside payloads
    tool: str = ""  # "" in the environment itself; else the `uvx` requirement whose own environment has this wheel


class EnvironmentLock(Response):
    """What every later run installs, exactly. Its hash over wheels, python, platform names the virtual environment."""

    python: str  # "3.11"
    platform: str  # a wheel platform tag, e.g. "linux_x86_64"
    verifiers: str  # the release that was chosen, "" when the package does not use it
    wheels: tuple[LockedWheel, ...]


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
    env_args: JsonObject = Field(default_factory=dict)  # [tool.verifiers.eval] / [tool.envhub] defaults, if any
    tool_programs: tuple[str, ...] = ()  # requirements that `uvx`-started tools name, resolved at build time
    previous: EnvironmentLock | None = None  # of an earlier build, presigned: used when the index lost a release since


class BuildReport(Request):
    """The worker's result. The version becomes `ready` when `failure` is None, else `invalid`."""

    generation: Generation | None = None
    verifiers: str = ""
    lock: EnvironmentLock | None = None
    describe: JsonObject | None = None
    checks: tuple[Check, ...] = ()
    failure: Failure | None = None
    scripted_rollout: JsonObject | None = None  # a RolloutRecord
    seconds: dict[str, float] = Field(default_factory=dict)  # stage -> wall seconds
