"""Ray clusters on the wire: what a worker says of its own, and how another host joins one that a worker has started."""

from __future__ import annotations

from pydantic import Field

from envhub.protocol.base import Count, Response

MOST_HOSTS = 1024


class ClusterHost(Response):
    """One host that answers in a cluster."""

    name: str
    cpus: Count = 0
    gpus: tuple[Count, ...] = Field(default=(), max_length=64)  # MB that each has to spare; 0: not told


class ClusterFacts(Response):
    """A worker's cluster. Without hosts nothing can run there, and `problem` says why."""

    address: str = ""  # HOST:PORT of the head
    own: bool = False  # the worker has started the head: others join with the hub's token
    hosts: tuple[ClusterHost, ...] = Field(default=(), max_length=MOST_HOSTS)
    problem: str = ""
    ray: str = ""  # the release of Ray, and that of Python: those of all hosts must be equal
    python: str = ""


class ClusterHead(Response):
    """How a host joins a cluster. `token` is Ray's: whoever has it may run code on every host of the cluster."""

    name: str  # of the worker that has started it
    address: str
    token: str
    ray: str
    python: str
    version: str  # of this software


class ClusterHeads(Response):
    """The clusters that the holder of a worker token may join a host to."""

    heads: tuple[ClusterHead, ...] = ()
