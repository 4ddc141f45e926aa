"""Builds the images of a version's Dockerfiles during its checks, so that what they lack is known before a run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runner import Described
from envhub.protocol.sandboxes.images import canonical
from packaging.utils import canonicalize_name

from workers.builds.record import Record
from workers.images.dockerfile.task_folders import TaskFolder, by_name
from workers.images.interface import ImageLacking
from workers.rollouts.needs import cleaned, hidden, hosts, told
from workers.rollouts.sandboxes import RunSandboxes
from workers.rollouts.unmet import Unmet

CHECK = "images"
SECONDS = 1800.0  # after this time, the remaining images are built when first used
MOST_TOLD = 5
ARCHIVE = re.compile(r"/dists/.*/?(?:InRelease|Release|Packages)\b")


async def check_images(project: str, sandboxes: RunSandboxes, unmet: Unmet, record: Record) -> None:
    """Check the images of the package's own Dockerfiles, if any.

    Those of packages that it requires are built when first used: Harbor itself contains a template.
    """
    own = (folder for folder in sandboxes.folders if folder.project == canonicalize_name(project))
    names = list(dict.fromkeys(folder.name for folder in own))
    if not names:
        return
    began, built = time.monotonic(), 0
    failed, needs = list[ImageLacking](), list[Need]()
    with record.stage(CHECK):
        for name in names:
            if time.monotonic() - began > SECONDS:
                break
            try:
                async with sandboxes.images.using(name):
                    built += 1
            except ImageLacking as error:
                failed.append(error)
                needs += needs_of(error, unmet.interceptor.files_lacking)
    if failed:
        _tell(failed, cleaned(needs), record)
        return
    later = f"; {len(names) - built} more when they are first used" if built < len(names) else ""
    record.add(CHECK, True, f"{built} image{'s'[: built != 1]} of its Dockerfiles{later}")


def without_built(described: Described, folders: Iterable[TaskFolder]) -> Described:
    """Drop the images that are built from Dockerfiles of the environment from those that its rows need."""
    built = set(by_name(list(folders)))
    splits = {
        name: split.model_copy(
            update={"images": {image: row for image, row in split.images.items() if canonical(image) not in built}}
        )
        for name, split in described.splits.items()
    }
    return described.model_copy(update={"splits": splits})


def needs_of(error: ImageLacking, asked: Iterable[tuple[str, str]]) -> tuple[Need, ...]:
    """Return what would let an image be built: its base, or what its steps requested in vain.

    For a package archive (apt), single files do not help, so its host is named.
    """
    if error.name:
        return (Need(kind=NeedKind.SANDBOX, name=error.name),)
    lacking = list(asked)
    archives = [(method, url) for method, url in lacking if ARCHIVE.search(url)]
    return hosts(archives, error.message) if archives else hidden(lacking, error.message)


def _tell(failed: list[ImageLacking], needs: tuple[Need, ...], record: Record) -> None:
    detail = "\n\n".join(f"{one.message}\n{one.hint}".strip() for one in failed[:MOST_TOLD])
    lacking = f"needs {told(needs)}: " if needs else ""
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    record.add(CHECK, False, f"{lacking}{failed[0].message.partition(chr(10))[0]}{more}", detail, needs)
