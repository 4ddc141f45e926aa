"""`hub worker list|token|revoke`, for administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.session import JsonFlag, current
from envhub.cli.terminal.tables import Fit
from envhub.protocol.gpus import in_words
from envhub.protocol.runs import WorkerTokenRequest, WorkerView

LISTED = Fit(drop=("sandbox", "host", "now", "cluster", "GPUs", "slots", "seen"))


def list_workers(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List workers: who is online, queues, slots, sandbox, last seen."""
    session = current(ctx)
    found = list(session.hub.workers.list())
    rows = [
        (w.id, w.name, w.hostname, state_of(w), f"{w.running} running", slots_of(w), w.sandbox, gpus_of(w),
         cluster_of(w), w.seen_at)
        for w in found
    ]  # fmt: skip
    heads = ("id", "name", "host", "state", "now", "slots", "sandbox", "GPUs", "cluster", "seen")
    session.show(found, lambda: session.table(heads, rows, "no workers", LISTED))


def state_of(worker: WorkerView) -> str:
    """In one word."""
    return "revoked" if worker.revoked else "online" if worker.online else "away"


def gpus_of(worker: WorkerView) -> str:
    """`2 x 80 GB`; empty for none."""
    return in_words(gpu.memory_mb for gpu in worker.facts.gpus) if worker.facts.gpus else ""


def cluster_of(worker: WorkerView) -> str:
    """`2 hosts, 4 x 80 GB`, or why it has none now; empty for a worker without a cluster."""
    cluster = worker.facts.cluster
    if cluster is None or not cluster.hosts:
        return cluster.problem if cluster else ""
    gpus = [memory for host in cluster.hosts for memory in host.gpus]
    hosts = f"{len(cluster.hosts)} {'host' if len(cluster.hosts) == 1 else 'hosts'}"
    sizes = in_words(gpus) if all(gpus) else f"{len(gpus)} GPUs"
    return f"{hosts}, {sizes}" if gpus else hosts


def slots_of(worker: WorkerView) -> str:
    """`build 1, eval 2 closed`; a queue without a slot count is served without slots."""
    closed = worker.closed if worker.online else ()
    words = ((queue, str(worker.slots.get(queue, "")), "closed" if queue in closed else "") for queue in worker.queues)
    return ", ".join(" ".join(filter(None, word)) for word in words)


def token(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    queue: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Only these queues (repeat); default: all.")
    ] = None,
    owner: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Only these owners' runs (repeat); default: all.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Make a token with which a worker joins; it is shown once."""
    session = current(ctx)
    request = WorkerTokenRequest(name=name, queues=tuple(queue or ()), owners=tuple(owner or ()))
    made = session.hub.workers.create_token(request)
    session.show(made, lambda: session.out.print(made.token, markup=False, soft_wrap=True))


def revoke(
    ctx: typer.Context,
    worker_id: Annotated[
        str, typer.Argument(help="The worker's id or address.", callback=id_of("a worker", "hub worker list"))
    ],
    json: JsonFlag = False,
) -> None:
    """Cut a worker off: its token ends (for all workers that joined by it), its runs return to the queue."""
    session = current(ctx)
    session.hub.workers.revoke(worker_id)
    session.show({"revoked": worker_id}, lambda: session.out.print(f"{worker_id} is revoked"))
