"""A web socket's server in the standard library alone, for sandboxes: `python3 echo_socket.py PORT`.

It says back the short texts that it hears, and which of the request's headers name somebody.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
TEXT, CLOSE = 1, 8


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        key = self.headers.get("Sec-WebSocket-Key", "")
        if not key or self.path.partition("?")[0] != "/socket":
            self.send_error(404)
            return
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = hashlib.sha1(f"{key}{MAGIC}".encode()).digest()
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accepted).decode())
        self.end_headers()
        self.close_connection = True
        names = [name for name in ("Cookie", "Authorization") if name in self.headers]
        while (heard := self.frame()) is not None:
            said = f"{heard} {self.path} {names}".encode()
            self.wfile.write(bytes([128 | TEXT, len(said)]) + said)
            self.wfile.flush()

    def frame(self) -> str | None:
        """The next text, of at most 125 bytes; None at the end."""
        head = self.rfile.read(2)
        if len(head) < 2 or head[0] & 15 == CLOSE:
            return None
        mask, data = self.rfile.read(4), self.rfile.read(head[1] & 127)
        return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)).decode()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
