"""A worker's own queues of the broker."""

from __future__ import annotations

from envhub.protocol.runs import own_queue
from kombu.entity import Exchange, Queue


def queue_of(queue: str, worker_id: str, *, sends: bool = False) -> Queue:
    """The one for runs of `queue`, which -Q and `celery control` may call by that short name.

    sends: for whoever only sends to it; who consumes it declares it.
    """
    name = own_queue(queue, worker_id)
    exchange = Exchange("", type="direct")  # type: ignore[no-untyped-call]
    return Queue(name, exchange, routing_key=name, alias=queue, no_declare=sends)  # type: ignore[no-untyped-call]


def kind_of(queue: str) -> str:
    """ "eval" of a worker's own queue for evaluations, or of that word itself."""
    return queue.partition(".")[0]
