"""A plain HTTP server of the operator's network, which boxes may be allowed to reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORD = "periwinkle"


class Word(BaseHTTPRequestHandler):
    """Answers every request with the word."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(WORD)))
        self.end_headers()
        self.wfile.write(WORD.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def word_server() -> Iterator[str]:
    """Its host:port; "" on a machine that has no address but loopback, which in a box is the box's own."""
    address = own_address()
    if not address:
        yield ""
        return
    with ThreadingHTTPServer((address, 0), Word) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{server.server_address[0]}:{server.server_port}"
        server.shutdown()


def own_address() -> str:
    """An address of this machine that is not loopback, or ""."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with suppress(OSError):
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = probe.getsockname()[0]
    return "" if address in {"0.0.0.0", "127.0.0.1"} else address
