"""`hub worker list|show|token|drain|resume|revoke`, for administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.protocol.placing.gpus import in_words
from envhub.protocol.runs import WorkerDetail, WorkerTokenRequest, WorkerView

LISTED = Fit(drop=("sandbox", "host", "now", "cluster", "GPUs", "slots", "seen"))
HELD = Fit(drop=("started", "owner"))


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


WorkerId = Annotated[
    str, typer.Argument(help="The worker's id or address.", callback=id_of("a worker", "hub worker list"))
]


def show(ctx: typer.Context, worker_id: WorkerId, json: JsonFlag = False) -> None:
    """Show one worker: its machine, the kinds of runs it takes, and its current runs."""
    session = current(ctx)
    found = session.hub.workers.get(worker_id)
    session.show(found, lambda: _print_worker(session, found))


def _print_worker(session: Session, worker: WorkerDetail) -> None:
    facts = worker.facts
    session.fields({
        "worker": worker.id, "name": worker.name, "host": worker.hostname, "state": state_of(worker),
        "joined": worker.joined_at, "seen": worker.seen_at, "token": worker.token,
        "takes runs of": worker.owners or "everybody", "queues": slots_of(worker), "sandbox": worker.sandbox,
        "CPUs": facts.cpus, "memory MB": facts.memory_mb,
        "GPUs": tuple(f"{gpu.index}: {gpu.name}, {gpu.free_mb} of {gpu.memory_mb} MB free" for gpu in facts.gpus),
        "cluster": cluster_of(worker), "engines": facts.engines, "platform": facts.platform,
        "version": facts.version or "older than this hub tells", "able to": facts.abilities,
    })  # fmt: skip
    rows = [(run.id, run.kind, run.state, run.owner, run.subject, run.started_at) for run in worker.runs]
    session.table(("run", "kind", "state", "owner", "subject", "started"), rows, "it holds no runs", HELD)


def state_of(worker: WorkerView) -> str:
    """In a word or two."""
    if worker.revoked:
        return "revoked"
    return ("online" if worker.online else "away") + (", drained" if worker.drained_at else "")


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
    name: Annotated[str, typer.Argument(help="Its name.")],
    queue: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Only these queues (repeat); default: all.")
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", "--team", metavar="<str>", help="Only these owners' runs (repeat); default: all."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Create a token that lets a worker join; it is shown only once."""
    session = current(ctx)
    request = WorkerTokenRequest(name=name, queues=tuple(queue or ()), owners=tuple(owner or ()))
    made = session.hub.workers.create_token(request)
    session.show(made, lambda: session.out.print(made.token, markup=False, soft_wrap=True))


def drain(ctx: typer.Context, worker_id: WorkerId, json: JsonFlag = False) -> None:
    """Send a worker nothing new, also after its restart, until `hub worker resume`: it finishes what it holds."""
    _drain(ctx, worker_id, drained=True)


def resume(ctx: typer.Context, worker_id: WorkerId, json: JsonFlag = False) -> None:
    """Let a drained worker take runs again."""
    _drain(ctx, worker_id, drained=False)


def _drain(ctx: typer.Context, worker_id: str, *, drained: bool) -> None:
    session = current(ctx)
    found = session.hub.workers.drain(worker_id, drained=drained)
    holds = f"holds {found.running} run{'' if found.running == 1 else 's'}" if drained else "takes runs again"
    session.show(found, lambda: session.out.print(f"{found.name} is {state_of(found)}: it {holds}", markup=False))


def revoke(ctx: typer.Context, worker_id: WorkerId, json: JsonFlag = False) -> None:
    """Revoke a worker's token, also for other workers that joined with it. Its runs return to the queue."""
    session = current(ctx)
    session.hub.workers.revoke(worker_id)
    session.show({"revoked": worker_id}, lambda: session.out.print(f"{worker_id} is revoked"))
