"""Looks at a cluster for as long as its standard input is open, and says what it sees: a line of JSON at each look.

Started by workers.cluster.keeper as `python -m workers.cluster.lookout ADDRESS SECONDS`, with Ray's token in the
environment. It is a driver without work: as for the driver of a run, this host must be a node of the cluster.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import ray
from envhub.protocol.clusters import MOST_HOSTS, ClusterHost

from workers.cluster.node import MEMORY_LABEL
from workers.cluster.seen import Seen
from workers.runs.children import die_with_parent, name_process


def hosts_in(nodes: Iterable[Mapping[str, Any]]) -> tuple[ClusterHost, ...]:
    """Those that live, the head first. Ray tells of a node's GPUs how many; our label, how much memory each has."""
    living = [node for node in nodes if node["Alive"]]
    living.sort(key=lambda node: ("node:__internal_head__" not in node["Resources"], node["NodeManagerAddress"]))
    return tuple(_host(node) for node in living[:MOST_HOSTS])


def _host(node: Mapping[str, Any]) -> ClusterHost:
    resources, label = node["Resources"], str((node.get("Labels") or {}).get(MEMORY_LABEL, ""))
    memory = int(label) if label.isdecimal() else 0
    gpus = (memory,) * min(64, int(resources.get("GPU", 0)))
    name = node.get("NodeManagerHostname") or node["NodeManagerAddress"]
    return ClusterHost(name=name, cpus=int(resources.get("CPU", 0)), gpus=gpus)


def main() -> None:
    """Until standard input ends, or Ray does not answer."""
    die_with_parent()
    name_process("look-out")
    address, seconds = sys.argv[1], float(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints goes to the log
    ray.init(address=address, namespace="hub", log_to_driver=False, logging_level=logging.ERROR)
    while True:
        answers.write(Seen(hosts=hosts_in(ray.nodes())).model_dump_json() + "\n")
        answers.flush()
        if select.select([0], [], [], seconds)[0] and not os.read(0, 1):
            os._exit(0)  # without Ray's farewell


if __name__ == "__main__":
    main()
