"""Kombu's filesystem transport on Celery's event loop, as Redis is.

Celery keeps its pool by threads and shares one pipe among the children where a transport cannot do that: then a child
that is killed while it reads takes the others with it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from kombu.transport import filesystem


class Transport(filesystem.Transport):
    """Looks into the folder every `polling_interval` seconds (a transport option)."""

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
        if any(name.endswith(".msg") for name in os.listdir(channel.data_folder_in)):
            with suppress(TimeoutError):  # there is nothing more for this worker
                while True:
                    self.drain_events(connection, timeout=0)  # type: ignore[no-untyped-call]
