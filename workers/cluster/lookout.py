"""Looks at a cluster for as long as its standard input is open, and says what it sees: a line of JSON at each look.

Started by workers.cluster.keeper as `python -m workers.cluster.lookout ADDRESS SECONDS`, with Ray's token in the
environment. It is a driver without work: as for the driver of a run, this host must be a node of the cluster.
"""

from __future__ import annotations

import logging
import os
import select
import sys

import ray

from workers.cluster.seen import Seen, hosts_in
from workers.runs.children import die_with_parent, name_process


def main() -> None:
    """Until standard input ends, or Ray does not answer."""
    die_with_parent()
    name_process("look-out")
    address, seconds = sys.argv[1], float(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints goes to the log
    ray.init(address=address, namespace="hub", log_to_driver=False, logging_level=logging.ERROR)
    for descriptor in (1, 2):  # Ray prints the logs of every node that dies
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    while True:
        answers.write(Seen(hosts=hosts_in(ray.nodes())).model_dump_json() + "\n")
        answers.flush()
        if select.select([0], [], [], seconds)[0] and not os.read(0, 1):
            os._exit(0)  # without Ray's farewell


if __name__ == "__main__":
    main()
