"""Descriptions of the parameters of /api/v1 for its schema; each name has one meaning.

Views list their query parameters with `query`; hub.api.schema describes those in paths.
"""

from __future__ import annotations

from enum import StrEnum

from drf_spectacular.utils import OpenApiParameter

from hub.core.ids import SHORTEST
from hub.core.pagination import MAX_LIMIT

_SHORT = f", in full or its first characters ({SHORTEST} or more)"
PAGE = ("before", "limit")  # for lists by `newest_first`
MEANINGS = {
    "action": "only these actions, in the words of the log",
    "actor": "only what this user did",
    "among": "only these examples and rollouts, as in `3,10-14,20.1`: at most 100",
    "cluster": "only the rollouts of this cluster: its name, as `clusters` answers it",
    "after": "the cursor: the last index that the page before had",
    "after_step": "the cursor: steps after this one",
    "archived": "`yes`: only those that are archived; else only those that are not",
    "attempt": "which attempt of the run; default: the current one",
    "before": "the cursor: the last id that the page before had; `next` has it",
    "cursor": "the cursor, as `next` has it",
    "delivery_id": f"id of the delivery{_SHORT}",
    "deployment_id": f"id of the deployment{_SHORT}",
    "environment": "only those of this environment: `owner/name`",
    "evaluation_id": f"id of the evaluation{_SHORT}",
    "everybody": "true: what is everybody's, not an owner's (administrators)",
    "example": "index of the example in the data set",
    "format": "of the file",
    "gpu_memory_mb": "of each GPU of one worker; 0: not known",
    "gpus": "of one worker of the pool",
    "index": "index of the rollout within its step",
    "invitation_id": f"id of the invitation{_SHORT}",
    "kind": "which kind of them",
    "label": "the label; where it narrows a list of rollouts, `any` stands for every label",
    "labels": "`true`: also say the labels of each",
    "leaderboard": "`yes`: only those with one; `no`: only those without",
    "link_id": f"id of the share link{_SHORT}",
    "limit": f"items of a page, at most {MAX_LIMIT}",
    "max_reward": "only rollouts with this reward or less",
    "min_reward": "only rollouts with this reward or more",
    "model": "only those of this model: `owner/name`",
    "name": "its name",
    "needs": "`yes`: only those whose latest version lacks something; `no`: only those that lack nothing",
    "note_id": f"id of the note{_SHORT}",
    "notice_id": f"id of the notification{_SHORT}",
    "of_evaluation": f"only those that show this evaluation or a part of it: its id{_SHORT}",
    "of_training": f"only those that show this training run: its id{_SHORT}",
    "offset": "the first character",
    "other_id": f"id of the other evaluation (B){_SHORT}",
    "outcome": "only rollouts that ended so: ok, truncated, failed, or a kind of failure",
    "owner": "the owner (a user or a team) by name",
    "pid": "number of the process, as its start answered it",
    "push_id": "id of the push, as `pushes` answered it",
    "queue": "only runs of these queues; default: all that the worker serves",
    "port_id": f"id of the open port{_SHORT}",
    "repository": "`OWNER/NAME` of the data set or model",
    "rollout": "number of the attempt at the example, from 0",
    "run_id": f"id of the run{_SHORT}",
    "sandbox": "`yes`: only those that use sandboxes; `no`: only those that do not",
    "sandbox_id": f"id of the sandbox{_SHORT}",
    "search": "words that must all occur",
    "settings": "which way of measuring, as `settings` of an answer has it; default: one of the newest version",
    "since": "only from this time on: `2026-01-31` (UTC) or `2026-01-31T18:00:00Z`",
    "slots": "runs at once of one worker of the pool, by queue: `eval:2,build:1`",
    "sort": "the order",
    "starred": "`yes`: only those that the caller has starred",
    "state": "only those in this state",
    "step": "the training step, from 1",
    "tag": "only those with this tag",
    "team": "the team, by name",
    "token": "only by this token: its first characters, as the log has them",
    "token_id": f"id of the API token{_SHORT}",
    "training_id": f"id of the training run{_SHORT}",
    "until": "only up to this day (UTC), or before this time",
    "user": "the user, by name",
    "url": "address of a repository of git, as `git clone` takes it",
    "version": "the version, or `latest`",
    "worker_id": f"id of the worker{_SHORT}",
    "webhook_id": f"id of the webhook{_SHORT}",
    "view_id": f"id of the saved view{_SHORT}",
    "watch_id": f"id of the watch of scores{_SHORT}",
}
_TYPES = {
    **dict.fromkeys(
        ("after", "after_step", "attempt", "example", "gpu_memory_mb", "gpus", "limit", "offset", "step"), int
    ),
    **dict.fromkeys(("max_reward", "min_reward"), float),
    "everybody": bool,
}


def query(*names: str) -> list[OpenApiParameter]:
    """Return the schema of these query parameters."""
    return [OpenApiParameter(name, _TYPES.get(name, str), description=MEANINGS[name]) for name in names]


def choice(name: str, values: type[StrEnum], default: StrEnum | None = None) -> OpenApiParameter:
    """Return the schema of a query parameter that is one of `values`."""
    named = None if default is None else default.value
    return OpenApiParameter(name, enum=[one.value for one in values], default=named, description=MEANINGS[name])
