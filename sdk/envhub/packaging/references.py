"""Parses direct references in requirements (PEP 508 `name @ url`): git repositories and files outside package indexes.

Used at push by the hub and the CLI, which refuse what no build could use, and by builds, which fetch them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envhub.errors import PackageError

ARCHIVES = (".whl", ".tar.gz", ".zip")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"[A-Za-z0-9][\w./+-]{0,200}")
CREDENTIALS = "it contains credentials, which everybody who can see the package could read"
HINT = "write `name @ git+https://HOST/OWNER/REPOSITORY@COMMIT`, or depend on a release of the package index"


@dataclass(frozen=True)
class DirectReference:
    """What a requirement points at. `url` excludes the ref and the fragment."""

    line: str  # the requirement as written
    name: str  # canonical
    kind: Literal["git", "file"]
    url: str
    ref: str = ""  # for a repository: commit, tag or branch; "" is the default branch
    subdirectory: str = ""
    sha256: str = ""  # for a file: the hash, if the requirement gives one

    @property
    def host(self) -> str:
        """See host_of."""
        return host_of(self.url)

    @property
    def is_pinned(self) -> bool:
        """Whether the reference names its content by commit or hash, so that it can never mean anything else."""
        return bool(_COMMIT.fullmatch(self.ref)) if self.kind == "git" else bool(self.sha256)

    def pinned(self, to: str) -> str:
        """Return the reference as a lock records it, once its commit (or its file's SHA-256) is known."""
        fragment = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        return f"git+{self.url}@{to}{fragment}" if self.kind == "git" else f"{self.url}#sha256={to}"


def find(requirements: Iterable[str]) -> list[DirectReference]:
    """List the direct references in requirements. Raises PackageError (`direct_reference`) for an unusable one."""
    return [found for line in requirements if (found := read(line)) is not None]


def read(line: str) -> DirectReference | None:
    """Parse one requirement; None if it names no address. Raises PackageError."""
    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise PackageError(f"bad requirement {line!r}: {error}", code="bad_requirement") from error
    if requirement.url is None:
        return None
    scheme, parts = _parts(line, requirement.url)
    options = {key: values[0] for key, values in parse_qs(parts.fragment).items()}
    subdirectory = unquote(options.get("subdirectory", "")).strip("/")
    if ".." in subdirectory.split("/") or subdirectory.startswith("/"):
        raise _unusable(line, "its subdirectory is outside the source")
    name = str(canonicalize_name(requirement.name))
    if not scheme.startswith("git+"):
        sha256 = options.get("sha256", "")
        return DirectReference(line, name, "file", _plain(parts.scheme, parts.netloc, parts.path), sha256=sha256)
    path, _, ref = parts.path.partition("@")
    if ref and not _REF.fullmatch(ref):
        raise _unusable(line, f"{ref[:80]!r} is not a commit, tag or branch")
    return DirectReference(line, name, "git", _plain(parts.scheme, parts.netloc, path), ref, subdirectory)


def refuse_credentials(requirements: Iterable[str]) -> None:
    """Check requirements that nothing installs here. Raises PackageError if an address has a password or a token."""
    for line in requirements:
        try:
            parts = urlsplit((Requirement(line).url or "").removeprefix("git+"))
        except (InvalidRequirement, ValueError):
            continue
        if parts.password or (parts.username and parts.scheme in {"http", "https"}):  # ssh: `git` is no secret
            raise _unusable(line, CREDENTIALS)


def host_of(url: str) -> str:
    """Return the host in the form used by HUB_GIT_HOSTS: only the host for https, else with scheme and port."""
    parts = urlsplit(url)
    return str(parts.hostname) if parts.scheme == "https" and not parts.port else f"{parts.scheme}://{parts.netloc}"


def is_open(host: str, patterns: Iterable[str]) -> bool:
    """Return whether the patterns of HUB_GIT_HOSTS allow a host."""
    return any(fnmatchcase(host, pattern) for pattern in patterns)


def mirrored(url: str, mirrors: Mapping[str, str]) -> str:
    """Return the address that HUB_GIT_MIRRORS gives for a repository; the longest matching prefix wins."""
    for beginning in sorted(mirrors, key=len, reverse=True):
        if url.startswith(beginning):
            return mirrors[beginning] + url.removeprefix(beginning)
    return url


def _parts(line: str, url: str) -> tuple[str, SplitResult]:
    scheme = url.partition(":")[0].lower()
    try:
        parts = urlsplit(url.removeprefix("git+"))
        parts.port  # noqa: B018 - raises ValueError for a bad port
    except ValueError as error:
        raise _unusable(line, str(error)) from error
    if scheme not in {"git+https", "git+http", "https", "http"} or not parts.hostname or parts.query:
        raise _unusable(line, "it is neither a git repository nor a file at an https address")
    if parts.username or parts.password:
        raise _unusable(line, CREDENTIALS)
    if not scheme.startswith("git+") and not parts.path.endswith(ARCHIVES):
        raise _unusable(line, f"it is neither a wheel nor a source archive ({', '.join(ARCHIVES)})")
    return scheme, parts


def _plain(scheme: str, netloc: str, path: str) -> str:
    return f"{scheme}://{netloc}{path}"


def _unusable(line: str, why: str) -> PackageError:
    return PackageError(
        f"the direct reference {line[:300]!r} cannot be used: {why}", code="direct_reference", hint=HINT
    )
