"""Celery as the hub uses it: it sends tasks to workers' queues and revokes them. It runs none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

from celery import Celery
from django.conf import settings
from django.db import transaction
from kombu.entity import Exchange, Queue

from hub.core.errors import Unavailable

logger = logging.getLogger(__name__)
SOCKET_TIMEOUT_S = 2.0  # of Redis: one that hangs would hold whoever queues a run for ever
HURRY = "SIGUSR2"  # has a process of a worker ask at once whether its run was cancelled


def broker_options(data: Path, broker_url: str, *, consumer: str = "") -> dict[str, Any]:
    """Transport options shared by hub and workers; the filesystem transport keeps its folders under `data`.

    consumer: whose they are. What it has taken and not acknowledged it keeps in Redis apart from everybody's.
    """
    if broker_url.startswith("redis") and consumer:
        return {f"{name}_key": f"{name}.{consumer}" for name in ("unacked", "unacked_index", "unacked_mutex")}
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
    """`broker_options` for the hub, which only sends: a consumer waits on its socket for as long as it takes."""
    options = broker_options(data, broker_url)
    if broker_url.startswith("redis"):
        options |= {"socket_timeout": SOCKET_TIMEOUT_S, "socket_connect_timeout": SOCKET_TIMEOUT_S}
    return options


def folder_mark(options: dict[str, Any]) -> str:
    """The path of a file by which a worker knows the broker's folder from one of the same name on its own host."""
    if "data_folder_in" not in options:
        return ""
    folder = Path(options["data_folder_in"])
    for found in sorted(folder.glob("mark-*")):
        return str(found)
    mark = folder / f"mark-{token_hex(16)}"
    mark.touch()
    return str(mark)


@cache
def celery_app() -> Celery:
    """The app of this hub's broker."""
    url = settings.HUB.resolved_broker_url()
    app = Celery("hub", broker=url, set_as_current=False, fixups=())
    app.conf.update(
        broker_transport_options=sending_options(settings.HUB.data, url),
        task_ignore_result=True,
        task_serializer="json",
        broker_connection_timeout=2,
    )
    return app


def send(task: str, *args: str, queue: str, task_id: str, label: str, headers: Mapping[str, Any]) -> bool:
    """Send `task` to the queue of that name, whose consumer declares it. Never raises; gives whether it was sent.

    label: what `celery inspect`, events and Flower show in the place of the task's name.
    """
    exchange = Exchange("", type="direct")  # type: ignore[no-untyped-call]
    direct = Queue(queue, exchange, routing_key=queue, no_declare=True)  # type: ignore[no-untyped-call]
    try:
        broker_options(settings.HUB.data, settings.HUB.resolved_broker_url())  # makes its folder, if that is gone
        celery_app().send_task(
            task, args, queue=direct, task_id=task_id, shadow=label, headers=dict(headers), retry=False
        )
    except Exception as error:  # noqa: BLE001  kombu's, the transport's, the operating system's
        logger.warning("task %s not sent: %s", task_id, error)
        return False
    return True


def revoke_on_commit(task_ids: Iterable[str]) -> None:
    """After the commit: tasks that wait in a worker are dropped, those that run are told to hurry. Never raises."""

    def revoke() -> None:
        try:
            celery_app().control.revoke(list(task_ids), terminate=True, signal=HURRY)
        except Exception as error:  # noqa: BLE001  a worker learns of it by its next heartbeat as well
            logger.warning("tasks not revoked: %s", error)

    transaction.on_commit(revoke)


def check_broker() -> None:
    """Raises Unavailable when the broker does not answer within about two seconds."""
    try:
        with celery_app().connection_for_write(connect_timeout=2) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
    except Exception as error:
        raise Unavailable("the broker does not answer") from error
