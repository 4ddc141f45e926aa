"""Writes of the evals app."""

from hub.evals.services.creating import create_evaluation
from hub.evals.services.lifecycle import (
    cancel_evaluation,
    delete_evaluation,
    follow_run,
    resume_evaluation,
    share_evaluation,
)
from hub.evals.services.pushing import finalize_push, push_evaluation
from hub.evals.services.segments import add_segment
from hub.evals.services.shards import report_shard

__all__ = [
    "add_segment",
    "cancel_evaluation",
    "create_evaluation",
    "delete_evaluation",
    "finalize_push",
    "follow_run",
    "push_evaluation",
    "report_shard",
    "resume_evaluation",
    "share_evaluation",
]
