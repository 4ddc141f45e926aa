"""Writes of the runs app. Every change of state goes through hub.runs.transitions."""

from hub.runs.services.cancelling import cancel_if_open, request_cancel
from hub.runs.services.clock_jumps import bring_back_times
from hub.runs.services.creating import create_run, start_now
from hub.runs.services.dispatching import receive_beat
from hub.runs.services.finishing import end_attempt, finish_run
from hub.runs.services.leases import claim_run, heartbeat_run, start_run
from hub.runs.services.logs import append_log
from hub.runs.services.parts import add_parts, must_leave, withdraw_orphans
from hub.runs.services.sweeping import cancel_overdue, expire_leases
from hub.runs.services.workers import create_worker_token, drain_worker, join_worker, note_worker, revoke_worker_token

__all__ = [
    "add_parts",
    "append_log",
    "bring_back_times",
    "cancel_if_open",
    "cancel_overdue",
    "claim_run",
    "create_run",
    "create_worker_token",
    "drain_worker",
    "end_attempt",
    "expire_leases",
    "finish_run",
    "heartbeat_run",
    "join_worker",
    "must_leave",
    "note_worker",
    "receive_beat",
    "request_cancel",
    "revoke_worker_token",
    "start_now",
    "start_run",
    "withdraw_orphans",
]
