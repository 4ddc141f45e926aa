"""Kombu's transports as workers use them. The hub sends with kombu's own."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from kombu.transport import filesystem, redis


class Folder(filesystem.Transport):
    """The filesystem transport on Celery's event loop, as Redis is: looks every `polling_interval` seconds (an option).

    Celery keeps its pool by threads and shares one pipe among the children where a transport cannot do that: then a
    child that is killed while it reads takes the others with it.
    """

    implements = filesystem.Transport.implements.extend(asynchronous=True)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Called by Celery for each connection."""
        loop.call_repeatedly(self.polling_interval, self._take_messages, connection)

    def _take_messages(self, connection: Any) -> None:
        for channel in self.channels:
            if channel._consumers:
                break
        else:
            return  # this connection only sends
        try:
            found = os.listdir(channel.data_folder_in)
        except FileNotFoundError:
            return  # the hub makes it again when it sends something
        if any(name.endswith(".msg") for name in found):
            with suppress(TimeoutError):  # there is nothing more for this worker
                while True:
                    self.drain_events(connection, timeout=0)  # type: ignore[no-untyped-call]


class RedisChannel(redis.Channel):
    """What was taken and not acknowledged when the connection was lost is left alone: the hub sends it again.

    Kombu 5.7 would put it back by the connection that is gone, which ends the whole worker with an AttributeError.
    """

    do_restore = False

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Nothing, on a channel that was closed."""
        if not self.closed:
            super().basic_ack(delivery_tag, multiple=multiple)  # type: ignore[no-untyped-call]

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Nothing, on a channel that was closed."""
        if not self.closed:
            super().basic_reject(delivery_tag, requeue=requeue)  # type: ignore[no-untyped-call]


class Redis(redis.Transport):
    """With channels that bear the loss of their connection."""

    Channel = RedisChannel
