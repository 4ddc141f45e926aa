"""The nodes outside a run's bundles that have its files, written down so that the next life of its driver knows them.

Does not import Ray.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class Visited:
    """Ray's ids of the nodes, one per line of a file in the run's directory."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._nodes = set(file.read_text().split()) if file.exists() else set[str]()

    def add(self, node: str) -> None:
        """Remember a node. Call it before anything is sent there."""
        if node not in self._nodes:
            self._nodes.add(node)
            self._file.write_text("".join(f"{one}\n" for one in sorted(self._nodes)))

    def apart_from(self, nodes: Iterable[str]) -> set[str]:
        """Return the nodes that are not among these."""
        return self._nodes.difference(nodes)

    def forget(self) -> None:
        """Forget them all: nothing is left there."""
        self._nodes.clear()
        self._file.unlink(missing_ok=True)
