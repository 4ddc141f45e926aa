"""`hub image list|add|build|delete`: images of sandboxes that the hub keeps, or has pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.progress import goes_on, transfer
from envhub.cli.terminal.session import JsonFlag, current
from envhub.cli.terminal.tables import Fit
from envhub.errors import EnvhubError
from envhub.packaging.archives.image_archives import archived, recognise
from envhub.protocol.runs import RunState
from envhub.protocol.sandboxes.images import Layout

Name = Annotated[str, typer.Argument(help="As code asks for it: python:3.11-slim, ghcr.io/OWNER/IMAGE:TAG, hub/base.")]
KINDS: dict[Layout | None, str] = {
    "docker": "an archive of `docker save`",
    "oci": "an OCI layout",
    "rootfs": "a root file system",
    None: "pinned",
}


LISTED = Fit(drop=("added by", "bytes", "what"))


def list_images(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List the images that were added, and those that workers have pulled, with their digests."""
    session = current(ctx)
    found = list(session.hub.images.list())
    rows = [
        (image.name, image.digest.removeprefix("sha256:")[:12], KINDS[image.layout], image.size or "", image.added_by)
        for image in found
    ]
    columns = ("name", "digest", "what", "bytes", "added by")
    session.show(
        found, lambda: session.table(columns, rows, "nothing yet: `hub image add python:3.11-slim TAR`", LISTED)
    )


def add(
    ctx: typer.Context,
    name: Name,
    path: Annotated[
        Path,
        typer.Argument(
            help="A tar of `docker save` or `podman save`, an OCI layout or a root file system (directory or tar).",
            exists=True,
        ),
    ],
    layout: Annotated[Layout | None, typer.Option(help="What it is; unless told, it is looked at.")] = None,
    json: JsonFlag = False,
) -> None:
    """Upload an image: sandboxes that ask for this name get it, from no registry."""
    session = current(ctx)
    kind = layout or recognise(path)
    with archived(path) as archive, transfer(session, "uploading", archive.stat().st_size) as moved:
        view = session.hub.images.add(name, archive, kind, progress=moved)
    said = f"{view.name}: {KINDS[view.layout]}, {view.size} bytes, {view.digest[:19]}"
    session.show(view, lambda: session.out.print(said))


def build(
    ctx: typer.Context,
    name: Name,
    folder: Annotated[
        Path, typer.Argument(help="With the Dockerfile and what it copies.", file_okay=False, exists=True)
    ],
    file: Annotated[str, typer.Option("--file", "-f", help="The Dockerfile, as a path in the folder.")] = "Dockerfile",
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of an ARG (repeatable).")] = None,
    json: JsonFlag = False,
) -> None:
    """Build an image from a Dockerfile, in a worker's sandboxes: what asks for this name then gets it."""
    session = current(ctx)
    arguments = dict(_argument(text) for text in build_arg or [])
    if not (folder / file).is_file():
        raise EnvhubError(f"there is no {file} in {folder}", hint="name it with --file")
    with archived(folder) as context, transfer(session, "uploading", context.stat().st_size) as moved:
        begun = session.hub.images.build(name, context, dockerfile=file, arguments=arguments, progress=moved)
    with goes_on(session, f"`hub run logs -f {begun.run_id}` follows it"):
        for text in session.hub.runs.follow_log(begun.run_id):
            if not session.json:
                session.write(text)
        *_, run = session.hub.runs.watch(begun.run_id)
    session.show(run, lambda: session.out.print(f"{begun.name}: {run.state.value}"))
    if run.state is not RunState.SUCCEEDED:
        if run.failure:
            session.fail(EnvhubError(run.failure.message, code=run.failure.code, hint=run.failure.hint))
        raise typer.Exit(1)


def _argument(text: str) -> tuple[str, str]:
    name, is_given, value = text.partition("=")
    if not is_given:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
    return name, value


def delete(ctx: typer.Context, name: Name, yes: Yes = False, json: JsonFlag = False) -> None:
    """Forget an image. One that is pulled is pinned anew by its next use."""
    session = current(ctx)
    ask_to_delete(f"image {name}", yes=yes)
    session.hub.images.delete(name)
    session.show({"deleted": name}, lambda: session.out.print(f"deleted {name}"))
