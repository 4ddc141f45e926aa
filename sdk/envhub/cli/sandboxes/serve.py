"""`hub sandbox serve`: sandboxes of the hub for programs on this machine that speak with prime-sandboxes."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.sandboxes.commands import Models, Name, Network, Timeout, request_of, wait_for
from envhub.cli.sandboxes.tunnels import frpc
from envhub.cli.terminal.owners import Owner
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import UsageError
from envhub.protocol.sandboxes.sandboxes import BASE_IMAGE, SiblingsAddress

KEEPER_MB = 64  # memory, and disk, of the sandbox that stands for them all
Program = Annotated[
    list[str] | None,
    typer.Argument(metavar="[COMMAND]...", help="The command to run, after `--`; its end ends the sandboxes."),
]
AtOnce = Annotated[int, typer.Option(help="Maximum number of sandboxes at once.", min=1, max=1000)]


def serve(
    ctx: typer.Context,
    program: Program = None,
    at_once: AtOnce = 8,
    timeout: Timeout = None,
    network: Network = None,
    model: Models = None,
    name: Name = "",
    owner: Owner = None,
    json: JsonFlag = False,
) -> None:
    """Provide sandboxes to programs on this machine that use prime-sandboxes, such as verifiers' environments.

    With a command, runs it with the client's variables set, and ends all sandboxes with it. Without one, prints the
    variables for a shell: eval "$(hub sandbox serve)".
    """
    session = current(ctx)
    if program and shutil.which(program[0]) is None:
        raise UsageError(f"{program[0]} was not found", hint="Name a program on your PATH after `--`.")
    request = request_of(image=BASE_IMAGE, cpus=None, memory=KEEPER_MB, disk=KEEPER_MB, timeout=timeout, idle=None,
                         env=None, network=network, model=model, name=name or "for programs outside",
                         owner=owner or session.configuration.owner)  # fmt: skip
    _place_tunnels(session)
    view = session.hub.sandboxes.create(request.model_copy(update={"siblings": at_once}))
    if program:
        try:
            wait_for(session, view)
            code = _run(program, session.hub.sandboxes.siblings(view.id))
        finally:
            session.hub.sandboxes.delete(view.id)
        raise typer.Exit(code)
    wait_for(session, view)
    address = session.hub.sandboxes.siblings(view.id)
    told = {"sandbox_id": view.id, **address.model_dump(mode="json")}
    session.show(told, lambda: _print(session, view.id, at_once, address))


def _place_tunnels(session: Session) -> None:
    """Programs that let sandboxes call them back find what does so."""
    try:
        if frpc.place(Path.home()):
            session.note("~/.prime/bin/frpc leads tunnels to this hub now, and those of Prime to Prime as before")
    except OSError as error:
        session.note(f"sandboxes cannot call programs here back: {error}")


def _run(program: list[str], address: SiblingsAddress) -> int:
    """Its exit status; an interrupt is for it as well, and is waited for. SIGTERM is passed on."""
    running = subprocess.Popen(program, env={**os.environ, **address.variables})
    signal.signal(signal.SIGTERM, lambda *_: running.terminate())
    while True:
        try:
            code = running.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:
            continue


def _print(session: Session, sandbox_id: str, at_once: int, address: SiblingsAddress) -> None:
    for name, value in address.variables.items():
        session.write(f"export {name}={shlex.quote(value)}\n")
    session.note(f"up to {at_once} sandboxes until {address.expires_at:%Y-%m-%d %H:%M} UTC; all are ended by")
    session.note(f"hub sandbox delete {sandbox_id}")
