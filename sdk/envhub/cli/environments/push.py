"""`hub push`: build a package, upload what the hub lacks, wait until the hub has built and tried it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Annotated, Literal

import typer

from envhub.cli.environments.local_packages import find_package, one_of, packages_below
from envhub.cli.environments.version_card import advice, print_needs
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.progress import goes_on, run_progress, transfer
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.client.blobs import LocalBlob
from envhub.errors import EnvhubError, NotFound, PackageError, UsageError
from envhub.packaging.build import BuiltPackage, build_package
from envhub.packaging.git_state import read_git_state
from envhub.packaging.left_behind import has_environment
from envhub.packaging.project import Project, bump_version, read_project, stated_visibility
from envhub.packaging.template import UNWRITTEN
from envhub.protocol.registry.packages import (
    GitState,
    PushComplete,
    PushFile,
    PushRequest,
    VersionState,
    VersionView,
)
from envhub.protocol.visibility import Visibility


def push(
    ctx: typer.Context,
    package: Annotated[str | None, typer.Argument(help="A directory, or a name under ./environments.")] = None,
    owner: Annotated[str | None, owner_option("Whose environment (default: yours).")] = None,
    bump: Annotated[Literal["patch", "minor", "major"] | None, typer.Option(help="Increase the version first.")] = None,
    visibility: Annotated[
        Visibility | None,
        typer.Option(help="Who may see it (default: unchanged; for a new one [tool.envhub] visibility, else public)."),
    ] = None,
    private: Annotated[bool | None, typer.Option("--private/--public", help="Short forms of --visibility.")] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="What is new, as Markdown (default: its changelog's section).")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the build.")] = True,
    json: JsonFlag = False,
) -> None:
    """Push a package as a new version of its environment, and wait until it is ready."""
    session = current(ctx)
    if private is not None:
        wanted = Visibility.PRIVATE if private else Visibility.PUBLIC
        if visibility not in (None, wanted):
            raise UsageError(
                f"--visibility {visibility} and --{wanted} contradict each other", hint="Give one of them."
            )
        visibility = wanted
    directory = find_package(package)
    pyproject = directory / "pyproject.toml"
    before = pyproject.read_bytes()
    project = read_project(directory)
    project = bump_version(project, bump) if bump else project
    pushed, git = pyproject.read_bytes(), read_git_state(directory)
    try:
        with tempfile.TemporaryDirectory(prefix="hub-push-") as folder:
            built = _built(project, Path(folder))
            seen_by = _seen_by(session, f"{owner or session.owner}/{built.metadata.name}", project, visibility)
            done = _upload(session, owner or session.owner, built, git, seen_by, message)
    except (EnvhubError, KeyboardInterrupt):
        if pyproject.read_bytes() == pushed:  # nobody has written there meanwhile
            pyproject.write_bytes(before)  # a bump without a version would skip a number
        raise
    view = _await_build(session, done) if wait else done.version
    now = session.hub.environments.get(f"{view.owner}/{view.name}").visibility
    warnings = (*built.warnings, *_unwritten(project))
    value = {"version": view, "visibility": now, "created": done.created, "build_run_id": done.build_run_id}
    session.show(value, lambda: _report(session, view, now, created=done.created, warnings=warnings))
    if wait and view.state is not VersionState.READY:
        raise typer.Exit(1)


def _built(project: Project, folder: Path) -> BuiltPackage:
    """Build it. Of a repository's own project, which is no environment, the error names the packages below it."""
    hint = one_of([path.relative_to(project.directory) for path in packages_below(project.directory)])
    try:
        built = build_package(project, folder)
    except PackageError as error:
        if error.code == "build_failed" and hint:
            raise PackageError(error.message, code=error.code, hint=hint) from error
        raise
    if hint and not has_environment(built.wheel):
        raise UsageError(f"{project.name} has no environment: no load_environment, and no taskset", hint=hint)
    return built


def _unwritten(project: Project) -> Iterator[str]:
    """What `hub init` wrote and its author has left so."""
    description = project.pyproject.get("project", {}).get("description")
    if isinstance(description, str) and description.endswith(UNWRITTEN):
        yield f'lists show the template\'s description, "{description}": write [project] description in pyproject.toml'


def _seen_by(session: Session, reference: str, project: Project, asked: Visibility | None) -> Visibility | None:
    """Who may see it from now on; None: who may see it already. Of a new environment it is said, with how to choose."""
    try:
        session.hub.environments.get(reference)
        return asked
    except NotFound:
        pass
    wanted = asked or stated_visibility(project) or Visibility.PUBLIC
    who = "everybody on this hub sees it" if wanted is Visibility.PUBLIC else "only members of its owner see it"
    choice = ""
    if asked is None:
        other = "private" if wanted is Visibility.PUBLIC else "public"
        choice = f'; --{other}, or [tool.envhub] visibility = "{other}", makes it {other}'
    session.note(f"{reference} is new and becomes {wanted}: {who}{choice}")
    return wanted


def _upload(
    session: Session,
    owner: str,
    built: BuiltPackage,
    git: GitState | None,
    visibility: Visibility | None,
    message: str | None,
) -> PushComplete:
    files = [LocalBlob.of(path) for path in (built.wheel, built.sdist)]
    wheel, sdist = (
        PushFile(filename=path.name, sha256=blob.sha256, size=blob.size)
        for path, blob in zip((built.wheel, built.sdist), files, strict=True)
    )
    name, version = built.metadata.name, built.metadata.version
    session.note(f"pushing {owner}/{name}@{version} ({(wheel.size + sdist.size) // 1024 + 1} KB)")
    request = PushRequest(
        name=name,
        version=version,
        visibility=visibility,
        wheel=wheel,
        sdist=sdist,
        git=git,
        message=message,
    )
    with transfer(session, "uploading", wheel.size + sdist.size) as moved:
        return session.hub.environments.push(owner, request, built.wheel, built.sdist, moved)


def _await_build(session: Session, done: PushComplete) -> VersionView:
    run_id = done.build_run_id or done.version.build_run_id
    if done.version.state is VersionState.BUILDING and run_id:
        with goes_on(session, f"`hub run show {run_id}` looks at the build"), run_progress(session, "build") as show:
            for run in session.hub.runs.watch(run_id):
                show(run)
    reference = f"{done.version.owner}/{done.version.name}"
    return session.hub.environments.version(reference, done.version.version)


def _report(
    session: Session, view: VersionView, seen_by: Visibility, *, created: bool, warnings: tuple[str, ...]
) -> None:
    reference = f"{view.owner}/{view.name}@{view.version}"
    for warning in warnings:
        session.note(f"warning: {warning}")
    if not created:
        session.note(f"unchanged: this content is already {reference}")
    failed = [check for check in view.checks if check.failed]
    if view.state is VersionState.READY:
        for check in failed:
            if check.name != "readme":  # the package's own warnings have it
                session.note(f"warning: {check.name}: {check.summary} (`hub env info {reference}` says more)")
                if said := advice(check):
                    session.note(indent(said, "  "))
        page = f"{session.hub.url}/environments/{view.owner}/{view.name}"
        session.out.print(f"[green]ready[/green] {reference} ({seen_by})  {page}")
        print_needs(session, view)
        return
    session.out.print(f"[{'red' if view.state is VersionState.INVALID else 'yellow'}]{view.state}[/] {reference}")
    for check in failed:
        session.note(f"  {check.name}: {check.summary}\n{indent(check.detail, '    ')}".rstrip())
    if view.failure:
        session.fail(EnvhubError(view.failure.message, code=view.failure.code, hint=view.failure.hint))
