"""Hints to workers: Celery messages by name, sent on commit. A lost message costs a poll interval, never a run."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

from celery import Celery
from django.conf import settings
from django.db import transaction

from hub.core.errors import Unavailable

logger = logging.getLogger(__name__)
SOCKET_TIMEOUT_S = 2.0  # of Redis: one that hangs would hold whoever queues a run for ever


def broker_options(data: Path, broker_url: str) -> dict[str, Any]:
    """Transport options shared by hub and workers; the filesystem transport keeps its folders under `data`."""
    if not broker_url.startswith("filesystem"):
        return {}
    folder = (data / "broker").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    where = str(folder)
    return {
        "data_folder_in": where,
        "data_folder_out": where,
        "control_folder": str(folder / "control"),
        "processed_folder": str(folder / "processed"),
        "store_processed": False,
        "polling_interval": 0.1,
    }


def sending_options(data: Path, broker_url: str) -> dict[str, Any]:
    """`broker_options` for the hub, which only sends: a listener waits on its socket for as long as it takes."""
    options = broker_options(data, broker_url)
    if broker_url.startswith("redis"):
        options |= {"socket_timeout": SOCKET_TIMEOUT_S, "socket_connect_timeout": SOCKET_TIMEOUT_S}
    return options


@cache
def _app() -> Celery:
    url = settings.HUB.resolved_broker_url()
    app = Celery("hub", broker=url, set_as_current=False)
    app.conf.update(
        broker_transport_options=sending_options(settings.HUB.data, url),
        task_ignore_result=True,
        task_serializer="json",
        broker_connection_timeout=2,
    )
    return app


def send_on_commit(task: str, *, queue: str, **kwargs: str) -> None:
    """Send `task` with string arguments to `queue` after the current transaction commits; never raises."""

    def send() -> None:
        try:
            _app().send_task(task, kwargs=kwargs, queue=queue, retry=False)
        except OSError as error:  # kombu's OperationalError is an OSError's cousin, caught below
            logger.warning("hint %s not sent: %s", task, error)
        except Exception as error:  # noqa: BLE001  a hint may be lost: workers poll
            logger.warning("hint %s not sent: %s", task, error)

    transaction.on_commit(send)


def check_broker() -> None:
    """Raises Unavailable when the broker does not answer within about two seconds."""
    try:
        with _app().connection_for_write(connect_timeout=2) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
    except Exception as error:
        raise Unavailable("the broker does not answer") from error
