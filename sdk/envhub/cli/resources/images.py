"""`hub image list|add|build|set|delete`: images of sandboxes that the hub keeps, or has pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.owners import Owner
from envhub.cli.terminal.progress import goes_on, transfer
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.errors import EnvhubError
from envhub.packaging.archives.image_archives import archived, recognise
from envhub.protocol.runs import RunState
from envhub.protocol.sandboxes.images import ImageView, Layout
from envhub.protocol.visibility import Visibility

Name = Annotated[str, typer.Argument(help="As code asks for it: python:3.11-slim, ghcr.io/OWNER/IMAGE:TAG, hub/base.")]
Everybody = Annotated[
    bool, typer.Option("--everybody", help="Make it hub-wide instead of an owner's (administrators).")
]
Seen = Annotated[Visibility | None, typer.Option(help="Who may use it (default: unchanged; new ones are private).")]
KINDS: dict[Layout | None, str] = {
    "docker": "an archive of `docker save`",
    "oci": "an OCI layout",
    "rootfs": "a root file system",
    None: "pinned",
}


LISTED = Fit(drop=("added by", "bytes", "what", "visibility"))


def list_images(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List the images that you may use in sandboxes: those added, and those that workers have pulled and pinned."""
    session = current(ctx)
    found = list(session.hub.images.list())
    rows = [
        (
            _reference(image),
            image.visibility if image.owner else "everybody's",
            image.digest.removeprefix("sha256:")[:12],
            KINDS[image.layout],
            image.size or "",
            image.added_by,
        )
        for image in found
    ]
    columns = ("name", "visibility", "digest", "what", "bytes", "added by")
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
    layout: Annotated[Layout | None, typer.Option(help="Its format (default: detected).")] = None,
    owner: Owner = None,
    visibility: Seen = None,
    everybody: Everybody = False,
    json: JsonFlag = False,
) -> None:
    """Upload an image. Its owner's sandboxes that ask for this name get it instead of a registry's."""
    session = current(ctx)
    kind = layout or recognise(path)
    whose = _owner(session, owner, everybody=everybody)
    with archived(path) as archive, transfer(session, "uploading", archive.stat().st_size) as moved:
        view = session.hub.images.add(
            name, archive, kind, owner=whose, everybody=everybody, visibility=visibility, progress=moved
        )
    said = f"{_reference(view)}: {KINDS[view.layout]}, {view.size} bytes, {view.digest[:19]}"
    session.show(view, lambda: session.out.print(said))


def build(
    ctx: typer.Context,
    name: Name,
    folder: Annotated[
        Path,
        typer.Argument(help="The folder with the Dockerfile and the files it copies.", file_okay=False, exists=True),
    ],
    file: Annotated[str, typer.Option("--file", "-f", help="The Dockerfile, as a path in the folder.")] = "Dockerfile",
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of an ARG (repeatable).")] = None,
    owner: Owner = None,
    visibility: Seen = None,
    everybody: Everybody = False,
    json: JsonFlag = False,
) -> None:
    """Build an image from a Dockerfile in a worker's sandboxes. Its owner's sandboxes can then use it by name."""
    session = current(ctx)
    arguments = dict(_argument(text) for text in build_arg or [])
    if not (folder / file).is_file():
        raise EnvhubError(f"there is no {file} in {folder}", hint="name it with --file")
    with archived(folder) as context, transfer(session, "uploading", context.stat().st_size) as moved:
        begun = session.hub.images.build(
            name,
            context,
            dockerfile=file,
            arguments=arguments,
            owner=_owner(session, owner, everybody=everybody),
            everybody=everybody,
            visibility=visibility,
            progress=moved,
        )
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


def _owner(session: Session, owner: str | None, *, everybody: bool) -> str | None:
    return owner if everybody else owner or session.configuration.owner


def _reference(image: ImageView) -> str:
    """As sandboxes may ask for it."""
    return f"hub/{image.owner}/{image.name}" if image.owner else image.name


def _argument(text: str) -> tuple[str, str]:
    name, is_given, value = text.partition("=")
    if not is_given:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
    return name, value


def set_visibility(
    ctx: typer.Context,
    name: Name,
    visibility: Annotated[Visibility, typer.Option(help="public: anyone may use it as hub/OWNER/NAME.")],
    owner: Owner = None,
    json: JsonFlag = False,
) -> None:
    """Make an image public or private. Everybody who runs an environment can use its owner's public images."""
    session = current(ctx)
    view = session.hub.images.set(name, visibility=visibility, owner=owner or session.configuration.owner)
    session.show(view, lambda: session.out.print(f"{_reference(view)}: {view.visibility}"))


def delete(
    ctx: typer.Context,
    name: Name,
    owner: Owner = None,
    everybody: Everybody = False,
    yes: Yes = False,
    json: JsonFlag = False,
) -> None:
    """Delete an image. A pulled (hub-wide) image is pinned anew at its next use."""
    session = current(ctx)
    ask_to_delete(session, f"image {name}", yes=yes)
    session.hub.images.delete(name, owner=_owner(session, owner, everybody=everybody), everybody=everybody)
    session.show({"deleted": name}, lambda: session.out.print(f"deleted {name}"))
