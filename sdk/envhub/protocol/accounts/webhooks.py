"""Wire types of webhooks. Messages are signed according to the Standard Webhooks specification:
https://www.standardwebhooks.com.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field, field_validator

from envhub.protocol.base import Request, Response, Slug
from envhub.protocol.models.endpoint_rules import base_url_problem
from envhub.protocol.runs import Failure, RunKind, RunState


class WebhookEvent(StrEnum):
    """An event that a webhook reports."""

    EVALUATION_FINISHED = "evaluation.finished"  # however it ended; see `data.state`
    TRAINING_FINISHED = "training.finished"
    RUN_FAILED = "run.failed"  # of any kind
    VERSION_READY = "version.ready"
    VERSION_INVALID = "version.invalid"
    SCORE_CROSSED = "score.crossed"  # a score that the owner, a user, watches
    NOTE_ADDED = "note.added"  # on a rollout of the owner
    TEST = "webhook.test"


CHOICES = tuple(event for event in WebhookEvent if event is not WebhookEvent.TEST)


class DeliveryState(StrEnum):
    """The state of a message's delivery."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


class WebhookRequest(Request):
    """Create a webhook."""

    url: str = Field(max_length=500)
    events: tuple[WebhookEvent, ...] = Field(min_length=1, max_length=len(WebhookEvent))

    @field_validator("url")
    @classmethod
    def _is_plain(cls, value: str) -> str:
        if problem := base_url_problem(value):
            raise ValueError(problem)
        return value

    @field_validator("events")
    @classmethod
    def _can_be_chosen(cls, value: tuple[WebhookEvent, ...]) -> tuple[WebhookEvent, ...]:
        if WebhookEvent.TEST in value:
            raise ValueError("only `hub webhook test` sends webhook.test")
        return tuple(event for event in CHOICES if event in value)


class WebhookPatch(Request):
    """Enable or disable a webhook."""

    enabled: bool


class WebhookView(Response):
    """A webhook without its secret."""

    id: str
    owner: Slug
    url: str
    events: tuple[str, ...]
    created_by: str
    created_at: datetime
    succeeded_at: datetime | None = None
    disabled_at: datetime | None = None
    disabled_why: str = ""


class NewWebhook(Response):
    """A new webhook. Its secret is shown only once."""

    webhook: WebhookView
    secret: str


class DeliveryView(Response):
    """A message to a webhook, with the result of its last attempt."""

    id: str  # sent as `webhook-id`, the same in every attempt
    event: str
    state: DeliveryState
    attempts: int
    status: int | None = None  # HTTP
    duration_s: float | None = None
    answer: str = ""  # the beginning of the response
    problem: str = ""
    created_at: datetime
    due_at: datetime | None = None  # time of the next attempt


class WebhookRun(Response):
    """The run that an event is about."""

    id: str
    kind: RunKind
    state: RunState
    owner: Slug
    subject: str
    url: str  # the run's page, or the page of its result
    started_by: str
    failure: Failure | None = None


class WebhookScore(Response):
    """The mean reward of an evaluation that is below or above what was watched for."""

    environment: str  # owner/name
    model: str
    mean: float
    below: float | None = None
    above: float | None = None
    url: str  # the evaluation's page


class WebhookNote(Response):
    """A note on a rollout."""

    about: str  # the rollout, in words
    author: str
    text: str
    url: str


class WebhookBody(Response):
    """The body of a message."""

    type: WebhookEvent
    timestamp: datetime
    data: WebhookRun | WebhookScore | WebhookNote | None = None  # None for a test
