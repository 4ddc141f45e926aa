"""Writes of the evals app."""

from hub.evals.services.annotating import (
    add_label,
    add_note,
    delete_note,
    delete_view,
    edit_note,
    remove_label,
    save_view,
)
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
from hub.evals.services.watching import watch_scores

__all__ = [
    "add_label",
    "add_note",
    "add_segment",
    "cancel_evaluation",
    "create_evaluation",
    "delete_evaluation",
    "delete_note",
    "delete_view",
    "edit_note",
    "finalize_push",
    "follow_run",
    "push_evaluation",
    "remove_label",
    "report_shard",
    "resume_evaluation",
    "save_view",
    "share_evaluation",
    "watch_scores",
]
