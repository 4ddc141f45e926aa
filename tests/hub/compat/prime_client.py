"""The calls of Prime's clients in their order, with the bodies that prime 0.18.0 sends."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import Any
from urllib.parse import urlsplit

from django.test import Client
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import User
from tests.factories.accounts import bearer, make_token
from tests.factories.registry import Pair


class PrimeClient:
    """Signed in as a user. Calls answer what came; `done` insists that it is a success."""

    def __init__(self, user: User, *, admin: bool = False) -> None:
        self.http = Client()
        self.headers = bearer(make_token(user, *((Scope.READ, Scope.WRITE, Scope.ADMIN) if admin else ())))

    def call(self, method: str, route: str, body: dict[str, Any] | None = None, **query: Any) -> Any:
        arguments: dict[str, Any] = {"headers": self.headers, "query_params": query}
        if method != "get":
            arguments |= {"data": body or {}, "content_type": "application/json"}
        return getattr(self.http, method)(f"/prime/api/v1/{route}", **arguments)

    def done(self, method: str, route: str, body: dict[str, Any] | None = None, **query: Any) -> Any:
        """The answer's `data`, or all of it."""
        response = self.call(method, route, body, **query)
        assert response.status_code < 300, response.content
        value = response.json() if response.content else {}
        return value.get("data", value)

    def push(self, pair: Pair, *, source: bytes | None = None, **resolve: Any) -> Any:
        """Everything that `prime env push` does; what finalizing answers."""
        source = packed(pair) if source is None else source
        environment = self.done("post", "environmentshub/resolve", {"name": pair.name, **resolve})["id"]
        known = {"content_hash": hashlib.sha256(source).hexdigest(), "semantic_version": pair.version, "metadata": {}}
        wheel = {**known, "filename": pair.wheel_filename, "sha256": digest(pair.wheel), "size": len(pair.wheel)}
        begun = self.done("post", f"environmentshub/{environment}/wheels", wheel)
        assert self.put(begun["upload_url"], pair.wheel).status_code == 204
        self.done("post", f"environmentshub/{environment}/wheels/{begun['wheel_id']}/finalize")
        archive = {**known, "filename": f"{pair.name}-{pair.version}.tar.gz", "sha256": digest(source)}
        begun = self.done("post", f"environmentshub/{environment}/versions", archive)
        assert self.put(begun["upload_url"], source).status_code == 204
        return self.call("post", f"environmentshub/{environment}/versions/{begun['version_id']}/finalize")

    def put(self, url: str, content: bytes) -> Any:
        """To an address that was given, without credentials, as the clients do."""
        parts = urlsplit(url)
        return Client().put(f"{parts.path}?{parts.query}", content, content_type="application/octet-stream")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(pair: Pair, **more: str) -> bytes:
    """The folder that a pair was built of, flat, as the clients pack it, with these files."""
    inside = {path.partition("/")[2]: content for path, content in unpacked(pair.sdist).items()}
    del inside["PKG-INFO"]
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as target:
        for path, content in {**inside, **{path: text.encode() for path, text in more.items()}}.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))
    return found.getvalue()


def unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        files = ((member.name, opened.extractfile(member)) for member in opened)
        return {name: file.read() for name, file in files if file is not None}
