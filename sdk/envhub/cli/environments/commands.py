"""`hub env`: listing, reading and changing environments; push, install, check and diff have files of their own."""

from __future__ import annotations

from itertools import islice
from textwrap import indent
from typing import Annotated

import typer
from rich.markup import escape

from envhub.cli.environments.version_card import print_card
from envhub.cli.terminal import completing
from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.owners import OnlyOwner
from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, Session, current, printable
from envhub.cli.terminal.tables import Fit
from envhub.errors import UsageError
from envhub.protocol.registry.packages import EnvironmentPatch, EnvironmentView, VersionState, VersionView, YankRequest
from envhub.protocol.visibility import Visibility

LISTED = Fit(drop=("description", "visibility", "stars", "state", "version"), cut=("description",))
Name = Annotated[
    str,
    typer.Argument(
        help="owner/name, or name for your own; some commands take @version.", autocompletion=completing.environments
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]


def list_environments(
    ctx: typer.Context,
    search: Annotated[str | None, typer.Argument(help="Words to search for.")] = None,
    owner: OnlyOwner = None,
    kind: Annotated[str | None, typer.Option(help="Only single-turn, multi-turn or tools.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    starred: Annotated[bool, typer.Option("--starred", help="Only those that you have starred.")] = False,
    sort: Annotated[str | None, typer.Option(help="newest (default), recent, stars, evaluated or trainable.")] = None,
    limit: Limit = 50,
    json: JsonFlag = False,
) -> None:
    """List the environments that you may see."""
    session = current(ctx)
    listed = session.hub.environments.list(search=search, owner=owner, kind=kind, tag=tag, starred=starred, sort=sort)
    found = list(islice(listed, limit))
    rows = [
        (f"{one.owner}/{one.name}", one.latest_version, _state(one), one.visibility, one.stars, one.description)
        for one in found
    ]
    columns = ("environment", "version", "state", "visibility", "stars", "description")
    session.show(found, lambda: session.table(columns, rows, "no environments found", LISTED))


def _state(item: EnvironmentView) -> str:
    if item.latest_state is VersionState.READY and item.latest_needs:
        return f"needs {item.latest_needs}"
    return item.latest_state or ""


def info(ctx: typer.Context, name: Name, json: JsonFlag = False) -> None:
    """Show an environment and one of its versions; exit with 1 if it does not exist."""
    session = current(ctx)
    reference = parse(session, name)
    environment = session.hub.environments.get(reference.environment)
    version = None
    if reference.version or environment.latest_version:
        version = session.hub.environments.version(reference.environment, reference.version_or_latest)
    value = {"environment": environment, "version": version}
    session.show(value, lambda: _print_info(session, environment, version))


def _print_info(session: Session, environment: EnvironmentView, version: VersionView | None) -> None:
    reference = f"{environment.owner}/{environment.name}"
    page = f"{session.hub.url}/environments/{reference}"
    session.fields({"environment": reference, "description": environment.description,
                    "visibility": environment.visibility, "evaluations": environment.evaluations,
                    "stars": environment.stars, "forked from": environment.forked_from or "",
                    "kind": environment.kind, "tags": environment.tags,
                    "updated": environment.updated_at, "page": page})  # fmt: skip
    if version is None:
        session.fields({"version": f"none to use; `hub env versions {reference}` lists the yanked ones"})
        return
    found = version.generation
    git, origin = version.git, version.origin
    session.fields({
        "version": version.version, "state": version.state,
        "yanked": (version.yank_reason or "yes") if version.yanked else "",
        "requires python": version.requires_python, "requires": version.dependencies, "license": version.license,
        "generation": f"{found.generation} ({found.constraint_set})" if found and found.generation else "unknown",
        "source": f"{git.commit[:12]}{' (dirty)' if git.dirty else ''}" if git else "",
        "origin": f"{origin.reference} of {origin.hub}, in a bundle signed by {origin.key}" if origin else "",
        "pushed": f"{version.created_at:%Y-%m-%d %H:%M} by {version.created_by}",
    })  # fmt: skip
    if version.changes:
        session.out.print(f"what is new:\n{escape(printable(indent(version.changes, '  ')))}")
    print_card(session, version)
    if version.failure:
        session.fields({"failure": version.failure.message, "hint": version.failure.hint})


def versions(ctx: typer.Context, name: Name, limit: Limit = 50, json: JsonFlag = False) -> None:
    """List the versions of an environment, newest first."""
    session = current(ctx)
    found = list(islice(session.hub.environments.versions(parse(session, name).environment), limit))
    rows = [(item.version, item.state, "yanked" if item.yanked else "", item.created_at, item.created_by, item.size,
             item.changes.partition("\n")[0]) for item in found]  # fmt: skip
    columns = ("version", "state", "", "pushed", "by", "bytes", "what is new")
    fit = Fit(drop=("bytes", "by", "what is new"), cut=("what is new",))
    session.show(found, lambda: session.table(columns, rows, fit=fit))


def files(
    ctx: typer.Context,
    name: Name,
    path: Annotated[str | None, typer.Argument(help="Print this file.")] = None,
    json: JsonFlag = False,
) -> None:
    """List a version's source files, or print one."""
    session = current(ctx)
    reference = parse(session, name)
    if path is None:
        found = list(session.hub.environments.files(reference.environment, reference.version_or_latest))
        session.show(found, lambda: session.table(("bytes", "path"), [(item.size, item.path) for item in found]))
        return
    content = session.hub.environments.file(reference.environment, reference.version_or_latest, path)
    text = content.text if content.text is not None else f"(binary, {content.size} bytes)"
    session.show(content, lambda: session.write(text))


def yank(
    ctx: typer.Context,
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; shown by pip and uv.")] = "",
    json: JsonFlag = False,
) -> None:
    """Hide a version from resolution; exact pins still install it."""
    _set_yanked(ctx, name, YankRequest(yanked=True, reason=reason))


def unyank(ctx: typer.Context, name: Name, json: JsonFlag = False) -> None:
    """Undo a yank."""
    _set_yanked(ctx, name, YankRequest(yanked=False))


def _set_yanked(ctx: typer.Context, name: str, request: YankRequest) -> None:
    session = current(ctx)
    reference = parse(session, name, need_version=True)
    view = session.hub.environments.yank(reference.environment, reference.version_or_latest, request)
    done = "yanked" if view.yanked else "no longer yanked"
    session.show(view, lambda: session.out.print(f"{reference}: {done}"))


def delete(ctx: typer.Context, name: Name, yes: Yes = False, json: JsonFlag = False) -> None:
    """Delete a version (owner/name@version) or a whole environment."""
    session = current(ctx)
    reference = parse(session, name)
    session.hub.environments.get(reference.environment)  # one that is not there is no question
    ask_to_delete(session, str(reference), yes=yes)
    if reference.version:
        session.hub.environments.delete_version(reference.environment, reference.version)
    else:
        session.hub.environments.delete(reference.environment)
    session.show({"deleted": str(reference)}, lambda: session.out.print(f"deleted {reference}"))


def set_properties(
    ctx: typer.Context,
    name: Name,
    visibility: Annotated[Visibility | None, typer.Option(help="Who may see it.")] = None,
    description: Annotated[str | None, typer.Option(help="One line about it.")] = None,
    tags: Annotated[str | None, typer.Option(help='Comma-separated tags; "" restores those of the package.')] = None,
    json: JsonFlag = False,
) -> None:
    """Change visibility, description or tags."""
    session = current(ctx)
    listed = None if tags is None else [tag for tag in map(str.strip, tags.split(",")) if tag]
    given = {"visibility": visibility, "description": description, "tags": listed}
    if all(value is None for value in given.values()):
        raise UsageError("nothing to change", hint="Give --visibility, --description or --tags.")
    patch = EnvironmentPatch.model_validate({key: value for key, value in given.items() if value is not None})
    view = session.hub.environments.update(parse(session, name).environment, patch)
    session.show(view, lambda: session.out.print(f"{view.owner}/{view.name}: {view.visibility}"))


def archive(ctx: typer.Context, name: Name, json: JsonFlag = False) -> None:
    """Make an environment read-only and leave it out of the list."""
    session = current(ctx)
    view = session.hub.environments.archive(parse(session, name).environment)
    session.show(view, lambda: session.out.print(f"{view.owner}/{view.name}: archived"))


def unarchive(ctx: typer.Context, name: Name, json: JsonFlag = False) -> None:
    """Unarchive an environment."""
    session = current(ctx)
    view = session.hub.environments.unarchive(parse(session, name).environment)
    session.show(view, lambda: session.out.print(f"{view.owner}/{view.name}: no longer archived"))


def star(ctx: typer.Context, name: Name, json: JsonFlag = False) -> None:
    """Star an environment."""
    session = current(ctx)
    _print_stars(session, session.hub.environments.star(parse(session, name).environment))


def unstar(ctx: typer.Context, name: Name, json: JsonFlag = False) -> None:
    """Remove your star."""
    session = current(ctx)
    _print_stars(session, session.hub.environments.unstar(parse(session, name).environment))


def _print_stars(session: Session, view: EnvironmentView) -> None:
    stars = f"{view.stars} star{'s'[: view.stars != 1]}"
    session.show(view, lambda: session.out.print(f"{view.owner}/{view.name}: {stars}"))


def rebuild(ctx: typer.Context, name: Name, json: JsonFlag = False) -> None:
    """Build a version again, for example after its data set or the operator's index has changed."""
    session = current(ctx)
    reference = parse(session, name)
    view = session.hub.environments.rebuild(reference.environment, reference.version_or_latest)
    session.show(view, lambda: session.out.print(f"building {reference.environment}@{view.version}"))
