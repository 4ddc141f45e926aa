"""Virtual environments of real verifiers releases, made once and kept in TEST_VENV_CACHE or the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from envhub.packaging import constraints
from packaging.version import Version


def bounds(release: str) -> tuple[list[str], list[str]]:
    """What a build would constrain this release with: pins, and uv's options."""
    for entry in constraints.load().values():
        if release in entry.releases:
            cut = entry.uploaded_before
            return list(entry.pins), ["--exclude-newer", cut.isoformat()] if cut else []
    return [], []


def python_of(release: str) -> Path:
    """The interpreter of an environment with this release; makes it when it is not there (minutes when cold)."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "envhub-test-venvs"
    root = Path(os.environ.get("TEST_VENV_CACHE", default))
    root.mkdir(parents=True, exist_ok=True)
    pins, options = bounds(release)
    folder = root / f"verifiers-{Version(release)}-{_digest([*pins, *options])}"
    with (root / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes share the cache
        if not (folder / "ready").exists():
            _make(folder, release)
    return folder / "bin" / "python"


def _digest(lines: list[str]) -> str:
    """Other pins are another environment."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def _make(folder: Path, release: str) -> None:
    uv = Path(sys.executable).with_name("uv")
    pins, options = bounds(release)
    (folder.parent / f"{folder.name}.constraints").write_text("\n".join(pins))
    subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, folder], check=True)
    wanted = [f"verifiers=={release}", "-c", str(folder.parent / f"{folder.name}.constraints"), *options]
    subprocess.run([uv, "pip", "install", "-q", "--python", folder / "bin" / "python", *wanted], check=True)
    (folder / "ready").touch()
