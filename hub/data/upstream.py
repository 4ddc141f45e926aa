"""The operator's Hugging Face endpoint: what a repository holds, and its files. Configured, so a trusted address."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from django.conf import settings

from hub.core.errors import NotFound, TooLarge, Unavailable

TIMEOUT = httpx.Timeout(60.0, connect=10.0)
LARGEST_FILE = 64 * 1024**3
CHUNK = 1024 * 1024


def allows(repository: str) -> bool:
    """Whether the operator's endpoint is configured and lets this repository through."""
    hub = settings.HUB
    return bool(hub.huggingface_url) and any(fnmatchcase(repository, p) for p in hub.huggingface_repositories)


def _client() -> httpx.Client:
    token = settings.HUB.huggingface_token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(
        base_url=settings.HUB.huggingface_url.rstrip("/"), headers=headers, timeout=TIMEOUT, follow_redirects=True
    )


@dataclass(frozen=True)
class Listing:
    """A revision upstream. `repository` is its whole name, also when a bare or an old one was asked for."""

    repository: str
    commit: str
    files: tuple[tuple[str, int], ...]


def read_listing(kind: str, repository: str, revision: str) -> Listing:
    """What a revision holds. Raises NotFound, Unavailable."""
    plural = f"{kind}s"
    with _client() as http:
        info = _json(http, f"/api/{plural}/{repository}/revision/{quote(revision, safe='')}")
        commit = str(info["sha"])
        entries = list(_tree(http, f"/api/{plural}/{info['id']}/tree/{commit}?recursive=true&expand=false"))
    files = tuple((str(e["path"]), int(e["size"])) for e in entries if e["type"] == "file")
    return Listing(repository=str(info["id"]), commit=commit, files=files)


def _tree(http: httpx.Client, url: str) -> Iterator[Any]:
    """All entries, page by page (RFC 8288 links)."""
    while url:
        response = _get(http, url)
        yield from response.json()
        url = response.links.get("next", {}).get("url", "")


def _json(http: httpx.Client, url: str) -> Any:
    return _get(http, url).json()


def _get(http: httpx.Client, url: str) -> httpx.Response:
    try:
        response = http.get(url)
    except httpx.HTTPError as error:
        raise Unavailable(f"the Hugging Face endpoint does not answer: {error!r}", hint="try again later") from error
    _check(response)
    return response


def _check(response: httpx.Response) -> None:
    if response.status_code in {401, 403, 404}:
        raise NotFound(f"the Hugging Face endpoint says {response.status_code} for {response.request.url.path}")
    if not response.is_success:
        raise Unavailable(f"the Hugging Face endpoint says {response.status_code}", hint="try again later")


@contextmanager
def fetched(kind: str, repository: str, commit: str, path: str) -> Iterator[tuple[Path, str]]:
    """(temporary file, sha256) with a file's bytes. Raises NotFound, Unavailable, TooLarge."""
    prefix = "datasets/" if kind == "dataset" else ""
    url = f"/{prefix}{repository}/resolve/{commit}/{quote(path)}"
    digest, size = hashlib.sha256(), 0
    with tempfile.NamedTemporaryFile(prefix="hub-data-") as target, _client() as http:
        try:
            with http.stream("GET", url) as response:
                _check(response)
                for chunk in response.iter_bytes(CHUNK):
                    size += len(chunk)
                    if size > LARGEST_FILE:
                        raise TooLarge(f"{path} has more than {LARGEST_FILE} bytes")
                    digest.update(chunk)
                    target.write(chunk)
        except httpx.HTTPError as error:
            raise Unavailable(f"fetching {path} failed: {error!r}", hint="try again later") from error
        target.flush()
        yield Path(target.name), digest.hexdigest()
