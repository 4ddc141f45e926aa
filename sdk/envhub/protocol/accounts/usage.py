"""Wire types of an owner's recent usage, and of its limits."""

from __future__ import annotations

from pydantic import Field

from envhub.protocol.base import Response, Slug
from envhub.protocol.runs import RunKind

USAGE_DAYS = 30  # the period that limits apply to


class KindUsage(Response):
    """Usage by runs of one kind.

    Tokens count hosted runs, including judges; for `serve`, they count calls from outside.
    """

    kind: RunKind
    run_seconds: float  # time that workers spent on the runs
    gpu_seconds: float  # the same, multiplied by each run's number of GPUs
    prompt_tokens: int
    completion_tokens: int
    cpu_seconds: float = 0.0  # CPU time, as reported by workers


class ModelUsage(Response):
    """Tokens of one model, in runs of every kind. `cost` is in US dollars, at the prices when each run began."""

    model: str  # owner/name
    prompt_tokens: int
    completion_tokens: int
    cost: float = 0.0


class UsageView(Response):
    """Usage of one owner over the last USAGE_DAYS days, including today. A limit of None means no limit."""

    owner: Slug
    kinds: tuple[KindUsage, ...] = ()
    # most tokens first, at most 50; judges count under the model that does the judging
    models: tuple[ModelUsage, ...] = ()
    cost: float = 0.0  # US dollars, for models that have a price
    gpu_hours: float
    gpu_hours_limit: float | None = None
    tokens: int  # prompt and completion tokens
    tokens_limit: int | None = None
    stored_bytes: int = 0  # at present
    stored_limit: int | None = None
    running_limits: dict[str, int] = Field(default_factory=dict)  # runs that workers may have at once, by kind

    @property
    def worker_hours(self) -> float:
        """Hours that workers spent on runs of any kind."""
        return sum(one.run_seconds for one in self.kinds) / 3600

    @property
    def cpu_hours(self) -> float:
        """CPU hours of attempts that have ended."""
        return sum(one.cpu_seconds for one in self.kinds) / 3600

    @property
    def at_once(self) -> str:
        """The limits of runs at once, in words."""
        limits = self.running_limits
        if len(limits) == len(RunKind) and len(set(limits.values())) == 1:
            return f"{next(iter(limits.values()))} of each kind"
        return ", ".join(f"{limit} {kind}" for kind, limit in limits.items())


class UsageViews(Response):
    """Usage of each owner that the caller belongs to, by name."""

    owners: tuple[UsageView, ...]
