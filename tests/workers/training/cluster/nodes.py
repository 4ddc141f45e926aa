"""Three hosts of a Ray cluster on this machine, each with a data directory of its own; any of them can be killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

ROOT = Path(__file__).parents[4]
OBJECTS = 100 * 1024**2  # bytes of a host's object store
CONFIG: dict[str, Any] = {
    "max_steps": 4,
    "batch_size": 32,
    "rollouts_per_example": 4,
    "learning_rate": 1e-3,
    "sampling": {"max_tokens": 6},
    "env": [{"id": "alice/reverse-text", "timeout": 60}],
    "trainer": {"rank": 4, "token_budget": 4096, "hosts": 2, "engines": 3},
    "checkpoints": {"interval": 1},
}
SOON = {  # a host that is gone refuses connections, so it is noticed within seconds; one that is busy has time
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 15_000,
    "health_check_failure_threshold": 4,
    "gcs_rpc_server_reconnect_timeout_s": 5,
    "agent_register_timeout_ms": 180_000,
}


@dataclass
class Nodes:
    """`address` of the head; `others` beside it, in the order of their making."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)  # more of each host's environment
    cluster: Any = None
    others: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> Any:
        """One more host."""
        node = self.cluster.add_node(**self.host(len(self.others) + 1))
        self.others.append(node)
        return node

    def data(self, number: int) -> Path:
        """A host's data directory; 0 is the head's."""
        return self.root / f"host-{number}"

    def kill(self, node: Any) -> None:
        """As if its power was cut: every process of it, at once."""
        raylet = node.all_processes["raylet"][0].process.pid
        head = [one.process.pid for one in node.all_processes.get("gcs_server", ())]
        for pid in [*head, raylet, *descendants(raylet)]:
            os.kill(pid, signal.SIGKILL)
        node.kill_all_processes(check_alive=False, allow_graceful=False)

    def stop(self) -> None:
        """End every host."""
        for node in [*self.cluster.worker_nodes, self.cluster.head_node]:
            node.kill_all_processes(check_alive=False, allow_graceful=False)

    def start(self, hosts: int) -> None:
        """Start a head and so many hosts in all, with the data directories of earlier ones."""
        self.cluster = Cluster(initialize_head=True, head_node_args={**self.host(0), "_system_config": SOON})
        self.others = []
        for _ in range(hosts - 1):
            self.add()

    def host(self, number: int) -> dict[str, Any]:
        """How a host is started."""
        own = {"WORKER_DATA": str(self.data(number)), "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
        variables = {**self.variables, **own}
        return {"num_cpus": 4, "object_store_memory": OBJECTS, "env_vars": variables, "include_dashboard": False}


def descendants(pid: int) -> list[int]:
    """Processes below one."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry.name), *descendants(int(entry.name))]
    return found


@contextmanager
def started(root: Path, hosts: int, variables: dict[str, str] | None = None) -> Iterator[Nodes]:
    """A cluster of so many hosts, the head among them."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Nodes(root, variables or {})
    nodes.start(hosts)
    try:
        yield nodes
    finally:
        nodes.stop()
