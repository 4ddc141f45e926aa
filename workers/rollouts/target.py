"""Opens a model that a run calls: an outside endpoint, or a local directory served by this host's engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from envhub.errors import EnvhubError
from envhub.protocol.models.catalog import EndpointTarget
from envhub.protocol.runs import FailureKind

from workers.inference.engines import EngineFailed, acquire
from workers.rollouts.interceptor.connections import open_endpoint, open_engine
from workers.rollouts.interceptor.endpoint import Endpoint
from workers.runs.errors import RunFailed
from workers.runs.execution import Job

LONGEST_ANSWER_S = 86_400.0


@asynccontextmanager
async def open_target(
    job: Job, target: EndpointTarget, *, wants_tokens: bool = True, rollout_s: float | None = None
) -> AsyncIterator[Endpoint]:
    """Open an endpoint for the target. Raises RunFailed, which says what the user can do.

    rollout_s: the time limit of a rollout. An answer of this host's engine may take all of it, because rollouts end
    by themselves. Other endpoints have their own time limits.
    """
    job.lease.mask(*(variant.api_key for variant in target.variants))
    if target.local is None:
        async with outside(target, wants_tokens=wants_tokens, trace_hosts=job.settings.trace_hosts) as endpoint:
            yield endpoint
        return
    try:
        async with acquire(target.model, target.local, data=job.settings.data, fetch=job.artifacts.fetch) as engine:
            job.lease.mask(engine.key)
            job.lease.engine_gpus = engine.gpus
            variant = engine.variant(target.model, timeout_s=rollout_s or LONGEST_ANSWER_S)
            async with open_engine(target.model, variant, wants_tokens=wants_tokens) as endpoint:
                yield endpoint
    except EngineFailed as error:
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, "engine_failed", str(error), error.hint) from error


@asynccontextmanager
async def outside(
    target: EndpointTarget, *, wants_tokens: bool, trace_hosts: Collection[str] = ()
) -> AsyncIterator[Endpoint]:
    """Open an endpoint that is run elsewhere. Raises RunFailed."""
    if not target.variants:
        raise RunFailed.because(
            FailureKind.INFRASTRUCTURE, "model_without_endpoint", f"The model {target.model} has no endpoint."
        )
    try:
        async with open_endpoint(target, wants_tokens=wants_tokens, trace_hosts=trace_hosts) as endpoint:
            yield endpoint
    except EnvhubError as error:
        if not error.code.startswith(("outbound_refused", "bad_url", "unknown_host")):
            raise
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, error.code, error.message, error.hint) from error
