"""Which builds of torch a package gets: those for the CPU, since no box has a GPU.

The plain index has builds for CUDA, which bring gigabytes of NVIDIA's libraries. CPU builds that the operator offers
(find-links, an index of his own) go first, then those of torch's own index for the CPU; all others only when no
dependency set can be had with these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workers.index.client import IndexClient
from workers.index.pages import IndexFile
from workers.runs.errors import RunFailed

PROJECTS = frozenset({"torch", "torchaudio", "torchvision"})
OFFICIAL = "https://download.pytorch.org/whl/cpu/"
OFF = "none"


class TorchBuilds:
    """Of one build. `preferred` are the projects of which only builds for the CPU were shown."""

    def __init__(self, index: IndexClient | None, log: Callable[[str], None]) -> None:
        self._index = index
        self._log = log
        self.away = False
        self.preferred: set[str] = set()

    async def choose(
        self,
        project: str,
        known: tuple[IndexFile, ...] | None,
        usable: Callable[[IndexFile], bool],
        *,
        all_builds: bool,
    ) -> tuple[IndexFile, ...] | None:
        """The files to show of a project of which the operator's index has `known`."""
        found = [file for file in known or () if is_cpu(file)]
        if all_builds or not any(map(usable, found)):
            found += await self._ask(project)
        if all_builds:
            return _union(found, known or ()) or known
        if not any(map(usable, found)):
            return known
        self.preferred.add(project)
        return _union(found)

    async def _ask(self, project: str) -> tuple[IndexFile, ...]:
        """An index that does not answer costs a build its preference, never its success."""
        if self._index is None or self.away:
            return ()
        try:
            return await self._index.files(project) or ()
        except RunFailed as error:
            self.away = True
            self._log(
                f"no CPU builds of torch: {error.failure.message}; taking those of the package index, which may bring "
                "CUDA (WORKER_TORCH_INDEX_URL names another index, `none` ends the search)"
            )
            return ()


def is_cpu(file: IndexFile) -> bool:
    """Whether its version says so: 2.9.0+cpu."""
    return file.version is not None and "cpu" in (file.version.local or "").split(".")


def _union(*groups: Iterable[IndexFile]) -> tuple[IndexFile, ...]:
    first: dict[str, IndexFile] = {}
    for group in groups:
        for file in group:
            first.setdefault(file.filename, file)
    return tuple(first.values())
