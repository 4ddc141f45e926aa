"""What `hub install` tells an installer so that a version's lock is what ends up in a virtual environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from envhub.errors import UsageError
from envhub.protocol.registry.builds import EnvironmentLock, LockedWheel

_QUESTION = (
    "import json,sys,sysconfig;"
    "print(json.dumps(['%d.%d' % sys.version_info[:2], sysconfig.get_platform().replace('-', '_').replace('.', '_')]))"
)
Fetch = Callable[[Iterable[LockedWheel], Path], None]  # wheels of the hub into a folder


@dataclass(frozen=True)
class LockedInstall:
    """Installs exactly the lock's wheels: by version and hash from the user's own index, those that no index has from
    the hub."""

    lock: EnvironmentLock
    folder: Path
    fetch: Fetch

    def arguments(self) -> list[str]:
        """For pip and uv alike."""
        wheels = self.folder / "wheels"
        wheels.mkdir()
        self.fetch(filter(_is_from_hub, _wheels(self.lock)), wheels)
        lines = self.folder / "lock.txt"
        own, *others = _wheels(self.lock)  # by its file: what has its version here already may have another content
        named = [f"{own.name} @ {(wheels / own.filename).as_uri()}", *(f"{one.name}=={one.version}" for one in others)]
        hashes = (wheel.sha256 for wheel in (own, *others))
        lines.write_text("".join(f"{one} --hash=sha256:{sha256}\n" for one, sha256 in zip(named, hashes, strict=True)))
        only = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
        return [*only, "--find-links", str(wheels), "--requirement", str(lines)]

    def from_hub_alone(self) -> list[str]:
        """After `arguments`: the user's index has lost a wheel, or cannot be reached. The hub has kept them all."""
        self.fetch((one for one in _wheels(self.lock) if not _is_from_hub(one)), self.folder / "wheels")
        return ["--no-index"]


def _wheels(lock: EnvironmentLock) -> list[LockedWheel]:
    return [wheel for wheel in lock.wheels if not wheel.tool]  # tools have environments of their own


def _is_from_hub(wheel: LockedWheel) -> bool:
    """Whether no index can be expected to have it: torch's builds for the CPU are on another than the usual one."""
    return wheel.owned or wheel.built_from_source or bool(wheel.source or Version(wheel.version).local)


def fits(lock: EnvironmentLock, python: str) -> bool:
    """Whether an interpreter can take the lock's very wheels. Raises UsageError when it does not run."""
    try:
        done = subprocess.run([python, "-I", "-c", _QUESTION], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{python} does not run: {error}") from error
    return bool(json.loads(done.stdout) == [lock.python, lock.platform])


def versions(lock: EnvironmentLock) -> tuple[str, ...]:
    """Constraints for another Python or platform, which needs other wheels of the same versions."""
    return tuple(f"{one.name}=={Version(one.version).public}" for one in _wheels(lock) if not one.owned)
