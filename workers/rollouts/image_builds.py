"""Makes the boxes in which the steps of Dockerfiles run.

A box runs on the image built so far and reaches the package indexes, the hub's files and the hosts granted to the
run, like the run's sandboxes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from workers.broker.relay import relay
from workers.images.dockerfile.builder import Bench
from workers.images.dockerfile.kept_layers import KeptLayers
from workers.rollouts.outside.server import OutsideServer
from workers.rollouts.package_stores import INSTALLERS, PackageStores
from workers.sandbox import Box, BoxSpec, Destination, Facts, Limits, backend, socket_folder
from workers.settings import WorkerEnvironment

MIB = 1024 * 1024
PIDS, FILES, OPEN_FILES = 1024, 500_000, 65_536
SLACK_S = 60.0  # lifetime of a box beyond its step's limit


@dataclass(frozen=True)
class BuildBoxes:
    """Opens boxes for build steps. `server` has the hub's files; None if there are none."""

    settings: WorkerEnvironment
    stores: PackageStores
    server: OutsideServer | None = None
    allow: Sequence[str] = ()

    @asynccontextmanager
    async def open(self, root: Path, variables: Mapping[str, str]) -> AsyncIterator[Box]:
        """Open a box on the image built so far. `variables` override ours.

        Always uses bubblewrap: only its boxes report what was written.
        """
        sandbox = backend("bwrap", self.settings.folder("boxes"))
        with socket_folder(self.settings.folder("boxes")) as folder:
            async with (
                relay(folder / "gateway.sock", self.stores.routes()),
                self.stores.extend_outside(self.server, real=bool(self.allow)) as outside,
                sandbox.create(
                    BoxSpec(
                        root=root,
                        keeps_changes=True,
                        sockets=folder,
                        network="allow-list" if self.allow else "gateway",
                        allow=tuple(map(Destination.of, self.allow)),
                        outside=outside,
                        limits=self._limits(sandbox.facts),
                        env={**INSTALLERS, "DEBIAN_FRONTEND": "noninteractive", **variables},
                    )
                ) as box,
            ):
                yield box

    def bench(self, log: Callable[[str], None]) -> Bench:
        """Return the tools for a build: how to open boxes, layers kept so far, log and limits."""
        settings = self.settings
        layers = KeptLayers(settings.folder("image-layers"))
        return Bench(self.open, layers, log, settings.image_build_s, settings.image_mb * MIB)

    def _limits(self, facts: Facts) -> Limits:
        disk, memory = self.settings.image_build_disk_mb * MIB, self.settings.image_build_memory_mb * MIB
        return Limits(
            memory_bytes=memory + disk,
            disk_bytes=disk,
            pids=PIDS,
            files=FILES,
            open_files=OPEN_FILES,
            cpus=self.settings.sandbox_most_cpus if facts.limits_cpu else None,
            lifetime_seconds=self.settings.image_build_s + SLACK_S,
        )
