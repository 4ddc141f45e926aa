"""`hub pull` (source into a directory) and `hub install` (into the active virtual environment)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

import typer

from envhub.cli.environments import locked
from envhub.cli.environments.local_packages import find_package, is_package
from envhub.cli.environments.locked import LockedInstall
from envhub.cli.terminal import completing
from envhub.cli.terminal.progress import transfer
from envhub.cli.terminal.references import Reference, parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import EnvhubError, NotFound, UsageError
from envhub.packaging import constraints, generation
from envhub.packaging.archives.reading import unpack
from envhub.packaging.metadata import read_sdist_pyproject
from envhub.packaging.project import read_project
from envhub.packaging.source_archives import METADATA, needs_metadata
from envhub.packaging.tree import walk
from envhub.protocol.registry.builds import LockedWheel
from envhub.protocol.registry.packages import GenerationEvidence, VersionView

Tool = Literal["pip", "uv"]


@dataclass(frozen=True)
class Source:
    """What to tell the installer. `locked` when it may be told to take all from the hub instead."""

    arguments: tuple[str, ...]
    label: str
    index_owner: str | None = None
    locked: LockedInstall | None = None


def pull(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="owner/name[@version]", autocompletion=completing.environments)],
    directory: Annotated[Path | None, typer.Argument(help="Default: ./environments/NAME.")] = None,
    json: JsonFlag = False,
) -> None:
    """Download a version's source into a new directory."""
    session = current(ctx)
    reference = parse(session, name)
    target = directory or Path("environments") / reference.name
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty", hint="Choose another directory.")
    view = session.hub.environments.version(reference.environment, reference.version_or_latest)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".hub-pull-", dir=target.parent) as folder:
        archive = _download(session, reference, view, "sdist", Path(folder) / "sdist.tar.gz")
        unpack(archive, Path(folder) / "files")
        (root,) = (Path(folder) / "files").iterdir()
        if not needs_metadata(read_sdist_pyproject(archive)):
            (root / METADATA).unlink(missing_ok=True)
        target.mkdir(exist_ok=True)
        for entry in root.iterdir():  # not the folder itself: the target may be the working directory
            entry.rename(target / entry.name)
    value = {"version": view, "directory": str(target)}
    session.show(value, lambda: session.out.print(f"{reference.environment}@{view.version} -> {target}"))


def install(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="A package under ./environments, a path (./..), or [owner/]name[@version].",
            autocompletion=completing.environments,
        ),
    ],
    tool: Annotated[Tool | None, typer.Option("--with", help="Installer (default: uv if present).")] = None,
    python: Annotated[
        str | None, typer.Option(help="Interpreter to install into (default: the active virtual environment's).")
    ] = None,
    resolve: Annotated[
        bool, typer.Option("--resolve", help="Resolve the dependencies anew instead of installing what the hub locked.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Install an environment, with the dependencies that its build locked, into the active virtual environment."""
    session = current(ctx)
    interpreter = python or active_python(session)
    if interpreter is None:  # never into the one that runs `hub`: an environment's limits would change its packages
        raise UsageError(
            "no virtual environment is active", hint="Activate one, or pass its interpreter with --python."
        )
    with tempfile.TemporaryDirectory(prefix="hub-install-") as folder:
        local = name.startswith((".", "/")) or ("/" not in name and is_package(name))
        into = Path(folder)
        source = _local(name, into) if local else _remote(session, name, into, None if resolve else interpreter)
        done = _run_installer(session, source, interpreter, tool)
        if done.returncode and source.locked is not None:
            session.note("that did not work from the package index: taking every wheel from the hub")
            whole = replace(source, arguments=(*source.arguments, *source.locked.from_hub_alone()))
            done = _run_installer(session, whole, interpreter, tool)
    if done.returncode:
        tail = "\n".join((done.stderr or "").strip().splitlines()[-15:])
        hint = "" if local or resolve else "With --resolve its dependencies are resolved anew."
        raise EnvhubError(f"{source.label} could not be installed\n{tail}", code="install_failed", hint=hint)
    value = {"installed": source.label, "python": interpreter}
    session.show(value, lambda: session.out.print(f"installed {source.label} into {interpreter}"))


def active_python(session: Session) -> str | None:
    """The interpreter of VIRTUAL_ENV or CONDA_PREFIX; None when neither is active."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = session.environ.get(variable)
        if prefix and (Path(prefix) / "bin/python").exists():
            return str(Path(prefix) / "bin/python")
    return None


def _remote(session: Session, name: str, folder: Path, interpreter: str | None) -> Source:
    """The version's lock where `interpreter` can take it; else the hub's wheel itself, hash checked, so that no other
    index can put a namesake in its place."""
    reference = parse(session, name)
    try:
        view = session.hub.environments.version(reference.environment, reference.version_or_latest)
    except NotFound as error:
        if is_package(name):
            raise UsageError(error.message, hint=f"For the package in this folder, write ./{name}") from error
        raise
    label = f"{reference.environment}@{view.version}"
    chosen = next((one.verifiers for one in view.tried if one.chosen), "")
    lines = _lines(view.generation, view.dependencies, chosen)
    if interpreter is not None and view.lock_sha256 is not None:
        lock = session.hub.environments.lock(reference.environment, view.version)
        if locked.fits(lock, interpreter):
            exact = locked.LockedInstall(lock, folder, partial(_fetch, session))
            return Source(tuple(exact.arguments()), label, reference.owner, exact)
        session.note(f"{label} was locked for Python {lock.python} on {lock.platform}: taking the same versions")
        lines = locked.versions(lock)
    wheel = _download(session, reference, view, "wheel", folder / Path(view.wheel_filename).name)
    return Source(_constrained(lines, str(wheel), folder), label, reference.owner)


def _fetch(session: Session, wheels: Iterable[LockedWheel], folder: Path) -> None:
    wanted = [wheel for wheel in wheels if wheel.url is not None]
    with transfer(session, "fetching wheels", sum(wheel.size for wheel in wanted)) as moved:
        for wheel in wanted:
            session.hub.environments.download_locked(wheel, folder, moved)


def _local(name: str, folder: Path) -> Source:
    project = read_project(find_package(name))
    files = {str(path.relative_to(project.directory)): path.read_text(errors="replace")
             for path in sorted(walk(project.directory)) if path.suffix == ".py" and path.is_file()}  # fmt: skip
    dependencies = tuple(project.pyproject["project"].get("dependencies", ()))
    evidence = generation.classify(files, dependencies, project.hub_config)
    return Source(_constrained(_lines(evidence, dependencies), str(project.directory), folder), project.name)


def _constrained(lines: tuple[str, ...], target: str, folder: Path) -> tuple[str, ...]:
    """Resolve `target` within these lines."""
    limits = folder / "constraints.txt"
    limits.write_text("".join(f"{line}\n" for line in lines))
    return "--constraint", str(limits), target


def _lines(evidence: GenerationEvidence | None, dependencies: tuple[str, ...], chosen: str = "") -> tuple[str, ...]:
    """What the build's resolution was told, for the release that it chose."""
    if evidence is None:
        return ()
    candidates = constraints.candidates(evidence, dependencies)
    release = next((one for one in candidates if one.release == chosen), candidates[0])
    return tuple(constraints.lines_for(release, dependencies))


def _run_installer(
    session: Session, source: Source, python: str, tool: Tool | None
) -> subprocess.CompletedProcess[str]:
    uv = shutil.which("uv") or _beside(sys.executable, "uv")
    if tool == "uv" and uv is None:
        raise UsageError("uv is not on PATH", hint="Install it, or use --with pip.")
    environ = dict(os.environ)
    if uv is not None and tool != "pip":
        command = [uv, "pip", "install", "--python", python]
        _add_index(session, environ, "UV_INDEX", source)
    else:
        command = [python, "-m", "pip", "install", "--disable-pip-version-check"]
        _add_index(session, environ, "PIP_EXTRA_INDEX_URL", source)
    session.note(f"installing {source.label} with {'uv' if uv and tool != 'pip' else 'pip'}")
    return subprocess.run([*command, *source.arguments], env=environ, capture_output=True, text=True, check=False)


def _add_index(session: Session, environ: dict[str, str], variable: str, source: Source) -> None:
    """The owner's index beside the configured ones; the token goes by environment, never on a command line."""
    if source.index_owner is None:
        return
    parts = urlsplit(f"{session.hub.url}/index/{source.index_owner}/simple/")
    token = session.configuration.token
    login = f"__token__:{quote(token, safe='')}@" if token else ""
    url = f"{parts.scheme}://{login}{parts.netloc}{parts.path}"
    environ[variable] = f"{environ[variable]} {url}" if environ.get(variable) else url


def _beside(executable: str, name: str) -> str | None:
    found = Path(executable).with_name(name)
    return str(found) if found.exists() else None


def _download(session: Session, reference: Reference, view: VersionView, kind: str, target: Path) -> Path:
    with transfer(session, f"fetching {kind}", view.size) as moved:
        return session.hub.environments.download(reference.environment, view, kind, target, moved)
