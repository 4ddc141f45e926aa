"""A run's share of a Ray cluster: its placement group, an actor for each process, and files copied to their hosts."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, get_placement_group, placement_group, placement_group_table
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from workers.runs.children import Process
from workers.training.cluster.head import listener, wait_for_head
from workers.training.cluster.keeper import Here, Keeper
from workers.training.cluster.plan import ClusterPlan
from workers.training.learner.directory.folders import MANIFEST
from workers.training.learner.directory.run_dir import RunDir

PIECE = 16 * 1024**2  # bytes sent as one object
AT_ONCE = 4  # pieces of a directory in flight
NAME = "share"
FINDING_S = 60  # how long to look for the group: a lost driver is being restarted meanwhile
CONNECT_S = 180  # seconds for Ray to connect to a cluster whose head answers
WAITS = ("PENDING", "RESCHEDULING")  # states of a placement group that has not all of its hosts
WEIGHTS_KEPT = 2  # versions on a host that only serves: the newest, and one that is still being read


@dataclass
class Actor:
    """A keeper and its place."""

    handle: Any
    here: Here

    def kill(self) -> None:
        """End the keeper and its process at once."""
        with suppress(RayError, ValueError):
            ray.kill(self.handle)


class Share:
    """The share of the cluster that one driver has. Create it after `connect`."""

    def __init__(self, plan: ClusterPlan, run: RunDir, group: PlacementGroup) -> None:
        self.plan, self.run, self._group = plan, run, group
        self.home: str = ray.get_runtime_context().get_node_id()
        self._class: Any = ray.remote(Keeper)

    @classmethod
    def make(cls, plan: ClusterPlan, run: RunDir) -> Share:
        """Ask for the run's placement group: a bundle on each of its hosts, the first on this one."""
        home = ray.get_runtime_context().get_node_id()
        bundles = plan.bundles()
        selectors: list[dict[str, str]] = [{"ray.io/node-id": home}, *({} for _ in bundles[1:])]
        group = placement_group(
            bundles,
            strategy="STRICT_SPREAD",
            name=NAME,
            bundle_label_selector=selectors,
        )
        return cls(plan, run, group)

    @classmethod
    async def find(cls, plan: ClusterPlan, run: RunDir) -> Share:
        """Return the group that the run's driver makes. Raises ValueError if there is none after FINDING_S."""
        for _ in range(FINDING_S):
            with suppress(ValueError):
                return cls(plan, run, get_placement_group(NAME))
            await asyncio.sleep(1.0)
        return cls(plan, run, get_placement_group(NAME))

    async def placed(self, seconds: float) -> bool:
        """Return whether all bundles are on hosts within this time."""
        return bool(await asyncio.to_thread(self._group.wait, seconds))

    def hosts(self) -> tuple[str, ...]:
        """Return the names of the hosts, bundle by bundle."""
        names = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes()}
        return tuple(names.get(node, "?") for node in self.nodes())

    def nodes(self) -> tuple[str, ...]:
        """Return Ray's ids of the hosts, bundle by bundle."""
        nodes = placement_group_table(self._group)["bundles_to_node_id"]
        return tuple(nodes[bundle] for bundle in sorted(nodes))

    async def others_wait(self) -> bool:
        """Return whether any run of the cluster waits for room, this one included. Raises RayError."""
        groups = await asyncio.to_thread(placement_group_table)
        return any(group["state"] in WAITS for group in groups.values())

    async def actor(self, host: int, *, gpus: int) -> Actor:
        """Return a keeper in a host's bundle; wait until the bundle is on a host. Raises RayError."""
        place = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=host)
        return await self._start({"num_cpus": 0, "num_gpus": gpus, "scheduling_strategy": place})

    async def guest(self, apart_from: Iterable[str]) -> Actor:
        """Return a keeper for an engine outside the run's bundles; wait until a host has room. Raises RayError.

        apart_from: nodes that already compute for the run, to be avoided if engines have no GPUs of their own.
        """
        gpus = self.plan.engine_gpus
        avoided = {} if gpus else {"label_selector": {"ray.io/node-id": f"!in({','.join(sorted(set(apart_from)))})"}}
        return await self._start({"num_cpus": 1, "num_gpus": gpus, "scheduling_strategy": "SPREAD", **avoided})

    async def visitor(self, node: str) -> Actor:
        """Return a keeper on a node of the cluster that takes none of its resources. Raises RayError."""
        place = NodeAffinitySchedulingStrategy(node, soft=False)
        return await self._start({"num_cpus": 0, "num_gpus": 0, "scheduling_strategy": place})

    async def _start(self, options: dict[str, Any]) -> Actor:
        handle: Any = self._class.options(**options, max_concurrency=64).remote(self.plan.run_id)
        try:
            return Actor(handle, await handle.here.remote())
        except BaseException:
            ray.kill(handle)
            raise

    async def bring(self, directory: Path, name: str, actor: Actor, *, keep: int = 0) -> Path:
        """Make a directory available on the actor's host, in the run's folder there under `name`, and return its path
        there.

        It is sent unless it is already there. keep: how many of its siblings to keep, by name; 0 keeps all. Raises
        RayError, OSError.
        """
        if actor.here.node == self.home:
            return directory
        manifest = directory / MANIFEST  # of weights; the base model, which never changes, has none
        if await actor.handle.wants.remote(name, manifest.read_bytes() if manifest.is_file() else b""):
            await self._send(directory, name, actor)
        return Path(await actor.handle.complete.remote(name, keep))

    async def _send(self, directory: Path, name: str, actor: Actor) -> None:
        flying: set[Any] = set()
        for path in sorted(found for found in directory.rglob("*") if found.is_file()):
            relative = path.relative_to(directory).as_posix()
            for offset in range(0, max(1, path.stat().st_size), PIECE):
                content = await asyncio.to_thread(read_at, path, offset)
                piece = actor.handle.piece.remote(name, relative, offset, ray.put(content))
                if offset == 0:
                    await piece  # the first piece creates the file
                    continue
                flying.add(asyncio.ensure_future(landed(piece)))
                if len(flying) >= AT_ONCE:
                    done, flying = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
        await asyncio.gather(*flying)


async def landed(piece: Any) -> None:
    """Await an object reference as a coroutine."""
    await piece


def read_at(path: Path, offset: int) -> bytes:
    """Read a piece of a file."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE)


def connect(plan: ClusterPlan) -> Process | None:
    """Connect to the cluster as a driver; this host must be part of it. Return the process of Ray's node here.

    Raises HeadLost, ConnectionError, RuntimeError. SIGALRM ends the process if Ray has not connected in time.
    """
    wait_for_head(plan.address)
    signal.alarm(CONNECT_S)
    context: Any = ray.init(
        address=plan.address,
        namespace=plan.namespace,
        log_to_driver=False,
        logging_level=logging.WARNING,
        configure_logging=True,
    )
    signal.alarm(0)
    return listener(context.address_info["raylet_socket_name"])
