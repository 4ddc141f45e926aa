"""`python -m workers.tasks.listener`: consume the broker's hints (address on standard input), one byte out for each."""

from __future__ import annotations

import logging
import os
import sys
import warnings

from celery.platforms import SecurityWarning

from workers.app import BrokerSettings, make_app
from workers.runs.children import die_with_parent


def listen(broker: BrokerSettings, hint_fd: int) -> None:
    """Consume until the process ends; Celery reconnects by itself."""
    warnings.filterwarnings("ignore", category=SecurityWarning)  # as root: the messages are JSON, and only hints
    logging.getLogger("kombu.connection").setLevel(logging.ERROR)  # the filesystem transport has no host name
    worker = make_app(broker, hint_fd).Worker(
        pool="solo",
        concurrency=1,
        queues=list(broker.queues),
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
    )
    worker.start()


if __name__ == "__main__":
    die_with_parent()
    listen(BrokerSettings.model_validate_json(sys.stdin.buffer.read()), os.dup(1))
