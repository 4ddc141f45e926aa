"""What environments, boxes and installations raise, as the typed failure of a run: for bodies that use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from envhub.protocol.runs import FailureKind

from workers.rollouts.errors import RunnerFatal, RunnerGone
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import SandboxError
from workers.venvs.errors import VenvError


@contextmanager
def typed_failures(job: Job) -> Iterator[None]:
    """Raises RunFailed instead."""
    try:
        yield
    except RunnerFatal as error:
        if error.traceback:
            job.lease.log(error.traceback)
        raise RunFailed(error.failure) from error
    except RunnerGone as error:
        raise RunFailed.because(
            FailureKind.ENVIRONMENT, "runner_died", str(error), "See the log for what the environment printed."
        ) from error
    except (SandboxError, VenvError) as error:
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, error.code, error.message, error.hint) from error
