"""`hub sandbox create|list|show|delete|ports`."""

from __future__ import annotations

import shlex
from itertools import islice
from typing import Annotated

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.owners import OnlyOwner, Owner
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.client.sandboxes import SandboxFailed
from envhub.errors import UsageError
from envhub.protocol.sandboxes.sandboxes import BASE_IMAGE, SandboxRequest, SandboxState, SandboxView

# codes of errors that tell less than the end of the process's output does
ENDED = {"process_ended", "process_not_found", "sandbox_ended"}
LISTED = Fit(drop=("created", "labels", "ends", "image"), wrap=("state", "labels"))


def _whole(session: Session, beginning: str) -> str:
    return session.hub.sandboxes.get(beginning).id


read_id = id_of("a sandbox", "hub sandbox list", _whole)
SandboxId = Annotated[
    str,
    typer.Argument(
        help="The sandbox's id (the first characters are enough) or address.",
        callback=read_id,
        autocompletion=completing.sandboxes,
    ),
]
Image = Annotated[str, typer.Option(help="Name of its image.")]
Cpus = Annotated[float | None, typer.Option(help="CPUs (default: the worker's).")]
Memory = Annotated[int | None, typer.Option(help="Memory in MB (default: the worker's).")]
Disk = Annotated[int | None, typer.Option(help="Disk in MB (default: the worker's).")]
Timeout = Annotated[float | None, typer.Option(help="Lifetime in seconds (default: the hub's, an hour).")]
Idle = Annotated[float | None, typer.Option(help="End it after this many seconds without a command.")]
Env = Annotated[list[str] | None, typer.Option("--env", "-e", metavar="<K=V>", help="Environment variable (repeat).")]
Network = Annotated[
    list[str] | None,
    typer.Option(metavar="<str>", help="none (default: only what the hub serves), or host:port (repeat)."),
]
Start = Annotated[
    str,
    typer.Option(metavar="<str>", help="Command to run in a shell at the start; `hub sandbox logs` shows its output."),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="<str>",
        help="owner/name that it may call at $OPENAI_BASE_URL (repeat).",
        autocompletion=completing.models,
    ),
]
Name = Annotated[str, typer.Option(help="Its name.")]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="<str>", help="Label to find it by (repeat).")]


def request_of(
    *,
    image: str,
    cpus: float | None,
    memory: int | None,
    disk: int | None,
    timeout: float | None,
    idle: float | None,
    env: list[str] | None,
    network: list[str] | None,
    start: str = "",
    model: list[str] | None = None,
    name: str = "",
    label: list[str] | None = None,
    owner: str | None = None,
) -> SandboxRequest:
    """The options of `create` and `run` as a request. Raises UsageError."""
    return SandboxRequest(
        owner=owner,
        name=name,
        image=image,
        cpus=cpus,
        memory_mb=memory,
        disk_mb=disk,
        timeout_s=timeout,
        idle_s=idle,
        env=variables(env),
        start_command=("/bin/sh", "-c", start) if start else (),
        allow_hosts=tuple(host for host in network or () if host != "none"),
        models=tuple(model or ()),
        labels=tuple(label or ()),
    )


def variables(given: list[str] | None) -> dict[str, str]:
    """K=V, each. Raises UsageError."""
    pairs = [text.partition("=") for text in given or ()]
    if bad := [key for key, equals, _ in pairs if not equals]:
        raise UsageError(f"{bad[0]!r} is not a variable", hint="Write --env NAME=VALUE.")
    return {key: value for key, _, value in pairs}


def create(
    ctx: typer.Context,
    image: Image = BASE_IMAGE,
    cpus: Cpus = None,
    memory: Memory = None,
    disk: Disk = None,
    timeout: Timeout = None,
    idle: Idle = None,
    env: Env = None,
    network: Network = None,
    start: Start = "",
    model: Models = None,
    name: Name = "",
    label: Labels = None,
    owner: Owner = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when it runs.")] = True,
    json: JsonFlag = False,
) -> None:
    """Create a sandbox: an isolated machine for your own commands."""
    session = current(ctx)
    request = request_of(image=image, cpus=cpus, memory=memory, disk=disk, timeout=timeout, idle=idle, env=env,
                         network=network, start=start, model=model, name=name, label=label,
                         owner=owner or session.configuration.owner)  # fmt: skip
    view = session.hub.sandboxes.create(request)
    if wait:
        view = wait_for(session, view)
    session.show(view, lambda: session.out.print(view.id))


def wait_for(session: Session, view: SandboxView) -> SandboxView:
    """Until it runs, with a line when why it waits changes; one that is given up is ended. Raises SandboxFailed."""
    said = ""

    def tell(now: SandboxView) -> None:
        nonlocal said
        if now.waiting_for and now.waiting_for != said:
            said = now.waiting_for
            session.note(f"sandbox: {said}")

    try:
        return session.hub.sandboxes.wait(view.id, notice=tell)
    except KeyboardInterrupt:
        session.hub.sandboxes.delete(view.id)
        raise
    except SandboxFailed as error:
        error.hint = error.hint or f"`hub sandbox show {view.id}` says more."
        raise


def list_sandboxes(
    ctx: typer.Context,
    owner: OnlyOwner = None,
    state: Annotated[SandboxState | None, typer.Option(help="Only in this state.")] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 30,
    json: JsonFlag = False,
) -> None:
    """List sandboxes, newest first."""
    session = current(ctx)
    found = list(islice(session.hub.sandboxes.list(owner=owner, state=state, label=label), limit))
    rows = [(view.id, view.name, view.image, _state(view), view.labels, view.created_at, view.ends_at)
            for view in found]  # fmt: skip
    columns = ("id", "name", "image", "state", "labels", "created", "ends")
    session.show(found, lambda: session.table(columns, rows, "no sandboxes", LISTED))


def _state(view: SandboxView) -> str:
    return f"{view.state} ({view.waiting_for})" if view.waiting_for else str(view.state)


def show(ctx: typer.Context, sandbox_id: SandboxId, json: JsonFlag = False) -> None:
    """Show one sandbox, and the command of each process that was started in it."""
    session = current(ctx)
    view = session.hub.sandboxes.get(sandbox_id)
    session.show(view, lambda: session.fields({
        "sandbox": view.id, "name": view.name, "owner": view.owner, "state": _state(view), "reason": view.reason,
        "hint": view.failure.hint if view.failure else "", "image": view.image, "cpus": view.cpus,
        "memory MB": view.memory_mb, "disk MB": view.disk_mb, "variables": view.variables,
        "starts": shlex.join(view.start_command),
        "network": view.allow_hosts or "none", "models": view.models, "siblings": view.siblings or None,
        "labels": view.labels, "worker": view.worker, "run": view.run_id,
        "created": view.created_at, "started": view.started_at, "ends": view.ends_at, "ended": view.ended_at,
    }))  # fmt: skip


def delete(
    ctx: typer.Context,
    sandbox_ids: Annotated[
        list[str],
        typer.Argument(help="Ids or addresses.", metavar="SANDBOX_ID...", autocompletion=completing.sandboxes),
    ],
    yes: Yes = False,
    json: JsonFlag = False,
) -> None:
    """End sandboxes and delete their contents."""
    session = current(ctx)
    ids = [read_id(ctx, text) for text in sandbox_ids]
    ask_to_delete(session, "the sandbox" if len(ids) == 1 else f"{len(ids)} sandboxes", yes=yes)
    for sandbox_id in ids:
        session.hub.sandboxes.delete(sandbox_id)
    session.show({"deleted": ids}, lambda: session.out.print(f"ended {', '.join(ids)}"))


def ports(
    ctx: typer.Context,
    sandbox_id: SandboxId,
    port: Annotated[
        int | None,
        typer.Argument(help="The port to open (default: list the open ports).", min=1, max=65535),
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long the address works.")] = 3600.0,
    name: Annotated[str, typer.Option(help="What it is used for.")] = "",
    close: Annotated[bool, typer.Option("--close", help="Close all addresses of the port.")] = False,
    json: JsonFlag = False,
) -> None:
    """Open a port and print its address. Anyone who knows it can use it until it expires or is closed."""
    session = current(ctx)
    hub = session.hub.sandboxes
    if port is not None and not close:
        address = hub.open_port(sandbox_id, port, seconds=seconds, name=name)
        session.show(address, lambda: session.out.print(address.url, soft_wrap=True))
        return
    if close and port is None:
        raise UsageError("--close needs a port", hint="`hub sandbox ports ID` lists those that are open.")
    found = [item for item in hub.ports(sandbox_id) if port in (None, item.port)]
    if not close:
        rows = [(item.id, item.port, item.name, item.created_at, item.expires_at) for item in found]
        columns = ("id", "port", "name", "opened", "expires")
        session.show(found, lambda: session.table(columns, rows, "no port is open"))
        return
    if not found:
        raise UsageError(f"port {port} is not open", hint="`hub sandbox ports ID` lists those that are.")
    for item in found:
        hub.close_port(sandbox_id, item.id)
    session.show({"closed": found}, lambda: session.note(f"closed; {len(found)} of its addresses lead nowhere now"))
