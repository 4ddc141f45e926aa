"""Which dependency names are the owner's: those asked for directly that he has pushed, and so on from these."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from workers.builds.index_client import IndexClient
from workers.builds.wheel_files import WheelFiles
from workers.venvs.wheel_checks import check_wheel

MAX_CLAIMS = 100


async def claimed_names(
    owner: IndexClient, requirements: Iterable[str], *, reserved: Set[str], files: WheelFiles
) -> frozenset[str]:
    """The closure over the owner's own packages. `reserved` names (what a generation pins) are never his."""
    claimed: set[str] = set()
    waiting = names_of(requirements)
    while waiting and len(claimed) < MAX_CLAIMS:
        name = waiting.pop()
        if name in claimed or name in reserved:
            continue
        found = await owner.files(name)
        if found is None:
            continue
        claimed.add(name)
        wheels = {file.version: file for file in found if file.wheel_tags and file.version}
        if wheels:
            newest = wheels[max(wheels)]
            path, _ = await files.fetch(owner, newest)
            checked = await asyncio.to_thread(check_wheel, path, newest.filename)
            waiting |= names_of(requires_dist(checked.metadata))
    return frozenset(claimed)


def names_of(requirements: Iterable[str]) -> set[str]:
    """Canonical names of requirement lines; what is no requirement is refused elsewhere."""
    names = set()
    for line in requirements:
        try:
            names.add(str(canonicalize_name(Requirement(line).name)))
        except InvalidRequirement:
            continue
    return names


def requires_dist(metadata: str) -> list[str]:
    """A wheel's requirements as METADATA has them, without those of its extras."""
    kept = []
    for line in HeaderParser().parsestr(metadata).get_all("Requires-Dist") or []:
        try:
            marker = Requirement(line).marker
        except InvalidRequirement:
            marker = None
        if marker is None or "extra" not in str(marker):
            kept.append(line)
    return kept
