"""The Celery side of a worker: it only listens for hints ("a run waits on your queue") and passes them on by a pipe.

`workers.tasks.listener` runs it as one small process (solo pool, no results). Runs are executed by the slots
(workers.tasks), which also poll, so nothing is lost when the broker is down: design.md, section 5.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from celery import Celery, Task
from envhub.protocol.base import JsonObject
from pydantic import BaseModel

TASK = "workers.run"
HINT_LIMIT_S = 5


class BrokerSettings(BaseModel):
    """What the listener is given on its standard input: never in arguments, a broker URL may hold a password."""

    url: str
    options: JsonObject
    queues: tuple[str, ...]


def make_app(broker: BrokerSettings, hint_fd: int) -> Celery:
    """A Celery app with the one task that the hub sends; each message becomes one byte on `hint_fd`."""
    app = Celery("workers", broker=broker.url, set_as_current=False, fixups=())  # else it loads a Django that it sees
    app.conf.update(
        broker_transport_options=broker.options,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_acks_late=False,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        task_time_limit=HINT_LIMIT_S,
        task_create_missing_queues=True,
        worker_redirect_stdouts=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        worker_prefetch_multiplier=1,
    )

    @app.task(name=TASK, bind=True)  # type: ignore[untyped-decorator]
    def hint(self: Task[Any, Any], run_id: str) -> None:
        with suppress(BrokenPipeError):  # the supervisor was killed: SIGTERM is on its way
            os.write(hint_fd, b"\n")

    return app
