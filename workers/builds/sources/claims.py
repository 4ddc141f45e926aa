"""Which dependency names are the owner's: those asked for directly that he has pushed, and so on from these."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from workers.builds.sources.wheel_files import WheelFiles
from workers.index.client import IndexClient
from workers.venvs.wheel_checks import check_wheel

MAX_CLAIMS = 100
Asked = tuple[str, frozenset[str]]  # a canonical name and its extras


async def claimed_names(
    owner: IndexClient, requirements: Iterable[str], *, reserved: Set[str], files: WheelFiles
) -> frozenset[str]:
    """The closure over the owner's own packages. `reserved` names (what a generation pins) are never his."""
    claimed: set[str] = set()
    followed: set[Asked] = set()
    waiting = _asked(requirements)
    while waiting and len(followed) < MAX_CLAIMS:
        name, extras = wanted = waiting.pop()
        if wanted in followed or name in reserved:
            continue
        found = await owner.files(name)
        if found is None:
            continue
        followed.add(wanted)
        claimed.add(name)
        wheels = {file.version: file for file in found if file.wheel_tags and file.version}
        if wheels:
            newest = wheels[max(wheels)]
            path, _ = await files.fetch(owner, newest)
            checked = await asyncio.to_thread(check_wheel, path, newest.filename)
            waiting |= _asked(requires_dist(checked.metadata, extras))
    return frozenset(claimed)


def names_of(requirements: Iterable[str]) -> set[str]:
    """Canonical names of requirement lines; what is no requirement is refused elsewhere."""
    return {name for name, _ in _asked(requirements)}


def _asked(requirements: Iterable[str]) -> set[Asked]:
    found = set()
    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        extras = frozenset(str(canonicalize_name(extra)) for extra in requirement.extras)
        found.add((str(canonicalize_name(requirement.name)), extras))
    return found


def requires_dist(metadata: str, extras: Set[str] = frozenset()) -> list[str]:
    """A wheel's requirements as METADATA has them; of its extras' only those of the given ones."""
    kept = []
    for line in HeaderParser().parsestr(metadata).get_all("Requires-Dist") or []:
        try:
            marker = Requirement(line).marker
        except InvalidRequirement:
            marker = None
        condition = str(marker or "")
        if "extra" not in condition or any(f'extra == "{extra}"' in condition for extra in extras):
            kept.append(line)
    return kept
