"""The sweeper's chore that sends what is due. Threads wait for receivers; its own alone uses the database.

At least once: a message is claimed until LEASE has passed. If the process dies meanwhile, the next one sends it again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from uuid import UUID

from django.db.models import F
from envhub.protocol.accounts.webhooks import DeliveryState, WebhookEvent
from envhub.protocol.models.catalog import OutboundPolicy

from hub.catalog.targets import outbound_policy
from hub.core import clock
from hub.core.database_json import storable_text
from hub.core.errors import Unavailable
from hub.secrets.services import decrypt
from hub.webhooks.models import Delivery, Webhook
from hub.webhooks.posting import Message, Outcome, post
from hub.webhooks.services import disable_failing

logger = logging.getLogger(__name__)
MOST_AT_ONCE, MOST_OF_ONE = 16, 4  # messages under way, and those to one webhook
LEASE = timedelta(seconds=60)  # longer than an attempt may take
DELAYS = tuple(timedelta(seconds=s) for s in (5, 60, 300, 1800, 2 * 3600, 4 * 3600, 6 * 3600, 12 * 3600))  # a day
KEPT = timedelta(days=30)  # of the log of deliveries
GONE = 410

Post = Callable[[Message, OutboundPolicy], Outcome]


@dataclass(frozen=True)
class _Attempt:
    delivery: Delivery  # as it was claimed
    number: int


class Sender:
    """Called about once a second by one process of all hubs."""

    def __init__(self, post: Post = post) -> None:
        self._post = post
        self._done: SimpleQueue[tuple[_Attempt, Outcome]] = SimpleQueue()
        self._busy: Counter[UUID] = Counter()  # webhooks

    def __call__(self) -> int:
        """Note what has come back, and send what is due; how many began."""
        self.note_outcomes()
        now, policy, began = clock.now(), outbound_policy(), 0
        for row in self._due(now):
            attempt = _claim(row, now) if self._busy[row.webhook_id] < MOST_OF_ONE else None
            if attempt is not None:
                self._busy[row.webhook_id] += 1
                threading.Thread(target=self._send, args=(attempt, policy), daemon=True).start()
                began += 1
        return began

    def note_outcomes(self) -> None:
        """Of the attempts that have ended."""
        while True:
            try:
                attempt, outcome = self._done.get_nowait()
            except Empty:
                return
            self._busy -= Counter([attempt.delivery.webhook_id])
            note_outcome(attempt.delivery, attempt.number, outcome)

    def _due(self, now: datetime) -> list[Delivery]:
        full = [webhook for webhook, count in self._busy.items() if count >= MOST_OF_ONE]
        rows = Delivery.objects.filter(state=DeliveryState.WAITING.value, due_at__lte=now).exclude(webhook__in=full)
        free = max(0, MOST_AT_ONCE - self._busy.total())
        return list(rows.select_related("webhook").order_by("due_at", "pk")[:free])

    def _send(self, attempt: _Attempt, policy: OutboundPolicy) -> None:
        row = attempt.delivery
        try:
            secret = decrypt(row.webhook.encrypted_secret)
            outcome = self._post(Message(str(row.pk), row.webhook.url, secret, row.body), policy)
        except Unavailable as error:
            outcome = Outcome(0.0, problem=error.message)
        except Exception:
            logger.exception("a webhook could not be called")
            outcome = Outcome(0.0, problem="the hub could not send it; its log says why")
        self._done.put((attempt, outcome))


def _claim(row: Delivery, now: datetime) -> _Attempt | None:
    """Nobody else sends it meanwhile. None: somebody was faster."""
    seen = Delivery.objects.filter(pk=row.pk, state=DeliveryState.WAITING.value, attempts=row.attempts)
    if seen.update(attempts=F("attempts") + 1, due_at=now + LEASE) != 1:
        return None
    return _Attempt(row, row.attempts + 1)


def note_outcome(row: Delivery, number: int, outcome: Outcome) -> None:
    """What came of attempt `number`: delivered, another attempt later, or given up."""
    now = clock.now()
    fields = {
        "status": outcome.status,
        "duration_s": outcome.duration_s,
        "answer": storable_text(outcome.answer),
        "problem": storable_text(outcome.problem)[:300],
    }
    mine = Delivery.objects.filter(pk=row.pk, attempts=number, state=DeliveryState.WAITING.value)
    if outcome.delivered:
        if mine.update(state=DeliveryState.DELIVERED.value, due_at=None, **fields):
            Webhook.objects.filter(pk=row.webhook_id).update(succeeded_at=now)
        return
    delays = DELAYS if row.event != WebhookEvent.TEST else ()
    if number <= len(delays) and outcome.status != GONE:
        mine.update(due_at=now + delays[number - 1], **fields)
        return
    if mine.update(state=DeliveryState.FAILED.value, due_at=None, **fields):
        _give_up(row, outcome)


def _give_up(row: Delivery, outcome: Outcome) -> None:
    """Disable a webhook that says that it is gone, or to which nothing came through while this was tried."""
    webhook = Webhook.objects.filter(pk=row.webhook_id).first()
    if webhook is None:
        return
    if outcome.status == GONE:
        disable_failing(webhook=webhook, why="it answered 410, which means that it is gone")
    elif row.event != WebhookEvent.TEST and (webhook.succeeded_at is None or webhook.succeeded_at < row.created_at):
        disable_failing(webhook=webhook, why="for a day, no message came through; the last deliveries say why")
