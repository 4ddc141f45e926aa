"""A Hugging Face endpoint over directories: `with HuggingFace({"openai/gsm8k": path}) as fake: fake.url`.

The same calls are made on it and on the hub's /hf in tests/hub/data: the contract suite.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34


class HuggingFace:
    """Serves data sets; counts the files that were fetched."""

    def __init__(self, repositories: dict[str, Path]) -> None:
        self.repositories = repositories
        self.fetched: list[str] = []
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """HF_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: HuggingFace
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        for name, folder in self.fake.repositories.items():
            if path in {f"/api/datasets/{name}", f"/api/datasets/{name}/revision/main"} or path == (
                f"/api/datasets/{name}/revision/{COMMIT}"
            ):
                return self.answer({"id": name, "sha": COMMIT, "siblings": [], "private": False})
            if path.startswith(f"/api/datasets/{name}/tree/"):
                return self.answer([entry(file, folder) for file in files_of(folder)])
            if path.startswith(f"/datasets/{name}/resolve/"):
                return self.file(folder / path.split("/resolve/")[1].partition("/")[2])
        return self.answer({"error": "Repository not found"}, 404)

    do_HEAD = do_GET

    def file(self, path: Path) -> None:
        if not path.is_file():
            return self.answer({"error": "Entry not found"}, 404)
        content = path.read_bytes()
        if self.command == "GET":
            self.fake.fetched.append(path.name)
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
        return self.send(200, content, headers)

    def answer(self, body: Any, status: int = 200) -> None:
        self.send(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


def files_of(folder: Path) -> list[Path]:
    """Every file below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def entry(path: Path, folder: Path) -> dict[str, Any]:
    """One row of a tree."""
    return {"type": "file", "path": str(path.relative_to(folder)), "size": path.stat().st_size, "oid": "0" * 40}
