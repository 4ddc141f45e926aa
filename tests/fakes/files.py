"""A web server with files: `with FileServer({"/words.txt": b"one"}) as fake: fake.url`. Counts what was asked."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class FileServer:
    """`files` may change meanwhile; a text is a redirect to there."""

    def __init__(self, files: dict[str, bytes | str]) -> None:
        self.files = files
        self.asked: list[str] = []
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    @property
    def place(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.place}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: FileServer

    def do_GET(self) -> None:
        self.fake.asked.append(self.path)
        found = self.fake.files.get(self.path)
        self.send_response(404 if found is None else 302 if isinstance(found, str) else 200)
        if isinstance(found, str):
            self.send_header("Location", found)
        self.send_header("Content-Type", "text/x-words; charset=utf-8")
        self.end_headers()
        if isinstance(found, bytes):
            self.wfile.write(found)

    def log_message(self, *_: Any) -> None:
        """Nothing: tests print their own."""
