"""Where webhooks are sent to: it takes its time to answer, and remembers which messages came, and how often."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class WebhookReceiver:
    """What has come. Made by `webhook_receiver`."""

    url: str
    answer_after_s: float
    came: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # (webhook-id, body)

    def bodies(self) -> dict[str, dict[str, Any]]:
        """By the id of the message, each once."""
        return dict(self.came)

    def repeated(self) -> int:
        """How many messages came more than once."""
        return sum(count > 1 for count in Counter(key for key, _ in self.came).values())


@contextmanager
def webhook_receiver(answer_after_s: float = 0.5) -> Iterator[WebhookReceiver]:
    """Listening on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.came.append((self.headers["webhook-id"], body))
            time.sleep(receiver.answer_after_s)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = WebhookReceiver(f"http://127.0.0.1:{server.server_port}/", answer_after_s)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
