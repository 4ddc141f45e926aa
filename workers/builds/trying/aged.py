"""Whether newer dependencies may be why an environment does not load, and until when its release of verifiers was the
newest: what its loose requirements meant then is tried once more (see search)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time

from envhub.protocol.registry.builds import EnvironmentLock
from packaging.version import InvalidVersion, Version

from workers.builds.trying.mismatch import root_of
from workers.index.client import IndexClient

EXPLAINED = {"import_error", "load_failed"}  # the runner's codes for what it has no better word for
_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]+?)(?:\.py)?(?:/|$)")
_SAID = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE)
_OUTSIDE = re.compile(
    r"(?:OSError|FileNotFoundError|PermissionError|Timeout\w*|Connection\w*|MemoryError|KeyboardInterrupt)$"
)
_LOST = re.compile(  # what an API that has changed says, wherever it is said
    r"cannot import name '\w+' from (?:partially initialized module )?'([\w.]+)'|No module named '(\w+\.[\w.]+)'|"
    r"module '([\w.]+)' has no attribute|type object '(\w+)' has no attribute|"
    r"got an unexpected keyword argument|missing \d+ required (?:positional|keyword-only) argument|"
    r"takes (?:from )?\d+ .{0,20}positional arguments? but"
)


def may_be_aged(code: str, traceback: str, module: str) -> bool:
    """Whether the root cause was raised inside a dependency, or speaks of a name or a parameter that one has lost.

    `module` is the package's own. What verifiers itself lacks asks for another release of it instead.
    """
    root, frames = root_of(traceback)
    said = _SAID.findall(root)
    if code not in EXPLAINED or not frames or not said or _OUTSIDE.search(said[-1][0]):
        return False
    own = {module, "verifiers"}
    lost = _LOST.search(said[-1][1])
    if lost is not None:
        return next((name.split(".")[0] for name in lost.groups() if name), "") not in own
    raised_in = _PACKAGE.search(frames[-1])
    return raised_in is not None and raised_in[1] not in own


async def superseded(index: IndexClient, lock: EnvironmentLock) -> datetime | None:
    """The day on which the final release after the lock's was uploaded; None when there is none, or no upload times."""
    try:
        base = Version(Version(lock.verifiers).base_version)
    except InvalidVersion:  # it installs none
        return None
    files = await index.files("verifiers") or ()
    days = [
        file.uploaded.date()
        for file in files
        if file.uploaded and file.version and not file.version.is_prerelease
        if Version(file.version.base_version) > base
    ]
    return datetime.combine(min(days), time(), UTC) if days else None
