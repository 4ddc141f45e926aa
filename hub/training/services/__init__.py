"""Writes of the training app."""

from hub.training.services.adapters import report_adapter
from hub.training.services.beginnings import report_beginning
from hub.training.services.checkpoints import report_checkpoint
from hub.training.services.creating import create_training
from hub.training.services.lifecycle import (
    delete_training,
    follow_run,
    share_training,
    stop_training,
)
from hub.training.services.resuming import resume_training
from hub.training.services.steps import report_evaluation, report_step

__all__ = [
    "create_training",
    "delete_training",
    "follow_run",
    "report_adapter",
    "report_beginning",
    "report_checkpoint",
    "report_evaluation",
    "report_step",
    "resume_training",
    "share_training",
    "stop_training",
]
