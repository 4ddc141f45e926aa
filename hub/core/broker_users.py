"""Redis users for workers (HUB_BROKER_ACL): each may consume its worker's own queues, and no run of another's.

What Celery's remote control shares (replies to `inspect`, bindings) they share too; commands only the hub can send.

Their passwords are derived from the hub's secret key, so nothing is kept and a worker that joins again gets the same.
Redis 7 or newer. Its users are gone after a restart without an ACL file: `admit` is called again for a worker in need.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from django.conf import settings

from hub.core.queue import SOCKET_TIMEOUT_S

logger = logging.getLogger(__name__)
COMMANDS = """
-@all +@connection +@transaction +@list +@hash +@set +@sortedset +@string +@scripting
+del +unlink +exists +expire +pexpire +ttl +pttl +type +time +info -@dangerous +info
"""  # on its own keys; no kombu of today or tomorrow needs more


def worker_url(worker_id: str, token_digest: str) -> str:
    """The broker's URL for one worker: as workers reach it, with a user and a password of its own."""
    parts = urlsplit(settings.HUB.worker_broker_url or settings.HUB.resolved_broker_url())
    if not settings.HUB.broker_acl:
        return urlunsplit(parts)
    host = parts.netloc.rpartition("@")[2]
    login = f"{_user(worker_id)}:{quote(_password(worker_id, token_digest))}"
    return urlunsplit(parts._replace(netloc=f"{login}@{host}"))


def admit(worker_id: str, token_digest: str) -> None:
    """Make the worker's user, or make it anew. Never raises: without it the worker cannot consume, which it says."""
    if not settings.HUB.broker_acl:
        return
    database = urlsplit(settings.HUB.resolved_broker_url()).path.strip("/") or "0"
    rules = [
        *("reset", "on", f">{_password(worker_id, token_digest)}", *COMMANDS.split()),
        *(f"~*.{worker_id}", f"~*.{worker_id}\x06*", "~*.celery.pidbox*", "~_kombu.binding*"),
        f"(+subscribe +psubscribe +unsubscribe +punsubscribe &/{database}.celery.pidbox)",
        f"(+publish &/{database}.celeryev*)",
    ]
    try:
        with _administrator() as client:
            client.execute_command("ACL", "SETUSER", _user(worker_id), *rules)
    except redis.RedisError as error:
        logger.warning("worker %s gets no user of the broker: %s", worker_id, error)


def dismiss(worker_ids: Iterable[str]) -> None:
    """Delete the users; that ends their connections. Never raises: their tokens are worth nothing any longer."""
    users = [_user(worker_id) for worker_id in worker_ids]
    if not settings.HUB.broker_acl or not users:
        return
    try:
        with _administrator() as client:
            client.execute_command("ACL", "DELUSER", *users)
    except redis.RedisError as error:
        logger.warning("users of the broker were not deleted: %s", error)


def _administrator() -> redis.Redis:
    url = settings.HUB.resolved_broker_url()
    return redis.Redis.from_url(url, socket_timeout=SOCKET_TIMEOUT_S, socket_connect_timeout=SOCKET_TIMEOUT_S)


def _user(worker_id: str) -> str:
    return f"worker-{worker_id}"


def _password(worker_id: str, token_digest: str) -> str:
    text = f"broker user {worker_id} {token_digest}"
    return hmac.new(settings.SECRET_KEY.encode(), text.encode(), "sha256").hexdigest()
