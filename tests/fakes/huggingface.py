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
LARGE = {".jsonl", ".parquet", ".safetensors"}  # as if kept by LFS


class HuggingFace:
    """Serves data sets and models; counts the files that were fetched, and may be slow with some."""

    def __init__(self, repositories: dict[str, Path], models: dict[str, Path] | None = None) -> None:
        self.repositories = repositories
        self.models = models or {}
        self.fetched: list[str] = []
        self.slow: set[str] = set()  # names of files of which the second half waits for `go_on`
        self.go_on = threading.Event()
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
        for plural, prefix, repositories in (
            ("datasets", "/datasets", self.fake.repositories),
            ("models", "", self.fake.models),
        ):
            for name, folder in repositories.items():
                api = f"/api/{plural}/{name}"
                if path in {api, f"{api}/revision/main", f"{api}/revision/{COMMIT}"}:
                    return self.answer({"id": name, "sha": COMMIT, "siblings": [], "private": False})
                if path.startswith(f"{api}/tree/"):
                    return self.answer([entry(file, folder) for file in files_of(folder)])
                if path.startswith(f"{prefix}/{name}/resolve/"):
                    return self.file(folder / path.split("/resolve/")[1].partition("/")[2])
        return self.answer({"error": "Repository not found"}, 404)

    do_HEAD = do_GET

    def file(self, path: Path) -> None:
        if not path.is_file():
            return self.answer({"error": "Entry not found"}, 404)
        content = path.read_bytes()
        if self.command == "GET":
            self.fake.fetched.append(path.name)
        headers = {"ETag": f'"{oid_of(path)}"', "X-Repo-Commit": COMMIT}
        if self.command == "GET" and path.name in self.fake.slow:
            return self.drip(content, headers)
        return self.send(200, content, headers)

    def answer(self, body: Any, status: int = 200) -> None:
        self.send(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, content: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content) if length is None else length)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def drip(self, content: bytes, headers: dict[str, str]) -> None:
        """Half of it at once, the rest when the test lets it."""
        half = len(content) // 2
        self.send(200, content[:half], headers, length=len(content))
        if self.fake.go_on.wait(60):
            self.wfile.write(content[half:])

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


def files_of(folder: Path) -> list[Path]:
    """Every file below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def oid_of(path: Path) -> str:
    """SHA-256 of a large file (LFS), git's id of a small one."""
    content = path.read_bytes()
    if path.suffix in LARGE:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def entry(path: Path, folder: Path) -> dict[str, Any]:
    """One row of a tree."""
    size, oid = path.stat().st_size, oid_of(path)
    row = {"type": "file", "path": str(path.relative_to(folder)), "size": size, "oid": oid}
    if path.suffix in LARGE:
        row |= {"oid": "0" * 40, "lfs": {"oid": oid, "size": size, "pointerSize": 130}}
    return row
