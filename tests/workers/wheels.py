"""Wheels and locks made for tests: a few files in a zip, with honest metadata unless a test wants otherwise."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from envhub.protocol.registry.builds import EnvironmentLock, LockedWheel

from workers.venvs import interpreters


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    *,
    requires: Sequence[str] = (),
    requires_python: str = "",
    tag: str = "py3-none-any",
) -> Path:
    """A wheel with `files`; "{data}" in a path is the wheel's .data folder."""
    stem = f"{name.replace('-', '_')}-{version}"
    contents = {path.replace("{data}", f"{stem}.data"): text for path, text in (files or {}).items()}
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    contents.setdefault(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
    contents[f"{stem}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    contents[f"{stem}.dist-info/RECORD"] = "".join(f"{path},,\n" for path in contents)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(member, text)
    return path


def locked(path: Path, *, tool: str = "", owned: bool = False) -> LockedWheel:
    """The lock's line for a wheel file."""
    content = path.read_bytes()
    name, version = path.name.split("-")[:2]
    sha256 = hashlib.sha256(content).hexdigest()
    return LockedWheel(
        name=name.replace("_", "-"),
        version=version,
        filename=path.name,
        sha256=sha256,
        size=len(content),
        tool=tool,
        owned=owned,
    )


def lock_of(*wheels: LockedWheel) -> EnvironmentLock:
    """A lock for the worker's own Python."""
    own = interpreters.present()[0]
    return EnvironmentLock(python=own.short, platform=interpreters.host_platform(), verifiers="", wheels=wheels)


class Shelf:
    """Serves wheel files by hash, as the hub's store does, and counts."""

    def __init__(self, *paths: Path) -> None:
        self._paths = {locked(path).sha256: path for path in paths}
        self.fetched: list[str] = []

    async def __call__(self, wheel: LockedWheel) -> Path:
        self.fetched.append(wheel.filename)
        return self._paths[wheel.sha256]
