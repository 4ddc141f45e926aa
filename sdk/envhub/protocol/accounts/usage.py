"""What an owner's runs have used lately, and what they may."""

from __future__ import annotations

from envhub.protocol.base import Response, Slug
from envhub.protocol.runs import RunKind

USAGE_DAYS = 30  # over which limits count


class KindUsage(Response):
    """By runs of one kind. Tokens: of hosted runs, judges included, and for `serve` of calls from outside."""

    kind: RunKind
    run_seconds: float  # that workers were busy with them
    gpu_seconds: float  # the same, times the GPUs that each had
    prompt_tokens: int
    completion_tokens: int
    cpu_seconds: float = 0.0  # of processors, by attempts that have ended


class ModelUsage(Response):
    """Tokens of one model, in runs of every kind. `cost`: US dollars, by its prices when each run began."""

    model: str  # owner/name
    prompt_tokens: int
    completion_tokens: int
    cost: float = 0.0


class UsageView(Response):
    """Of one owner over the last USAGE_DAYS days, today included. A limit of None: there is none."""

    owner: Slug
    kinds: tuple[KindUsage, ...] = ()
    models: tuple[ModelUsage, ...] = ()  # most tokens first, 50 at most; judges count as the model that they judge
    cost: float = 0.0  # US dollars, of models that have a price
    gpu_hours: float
    gpu_hours_limit: float | None = None
    tokens: int  # prompt and completion
    tokens_limit: int | None = None
    stored_bytes: int = 0  # now
    stored_limit: int | None = None

    @property
    def worker_hours(self) -> float:
        """That workers were busy, with whatever kind of run."""
        return sum(one.run_seconds for one in self.kinds) / 3600

    @property
    def cpu_hours(self) -> float:
        """Of processors, by attempts that have ended."""
        return sum(one.cpu_seconds for one in self.kinds) / 3600


class UsageViews(Response):
    """Of each owner that the caller belongs to, by name."""

    owners: tuple[UsageView, ...]
