"""Builds the wheel and sdist of a package directory with its own PEP 517 backend and checks the result.

Plain hatchling projects (what `hub init` writes) are built in this process, in a fraction of a second and without
network. Everything else is built in an isolated environment by the `build` library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, Literal

from build import BuildBackendException, BuildException, ProjectBuilder
from build.env import DefaultIsolatedEnv
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envhub.errors import PackageError
from envhub.packaging import references
from envhub.packaging.archives.reading import safe_members
from envhub.packaging.archives.sdist_metadata import keep_last_metadata
from envhub.packaging.archives.sdist_readme import add_readme
from envhub.packaging.archives.wheel_dangers import DANGER_HINT, wheel_dangers
from envhub.packaging.archives.wheel_record import check_record
from envhub.packaging.left_behind import left_behind, lfs_pointers
from envhub.packaging.metadata import (
    README_FILES,
    PackageMetadata,
    build_requirements,
    check_pair,
    read_wheel_metadata,
)
from envhub.packaging.project import Project
from envhub.packaging.secret_files import secret_files
from envhub.packaging.tree import check_tree

LEFTOVERS = ("build", ".pdm-build", "*.egg-info", "*/*.egg-info")
INCLUDE = "with hatchling: [tool.hatch.build] include"
EPOCH = "1580601600"  # 2020-02-02, hatchling's default: the same source gives the same bytes


@dataclass(frozen=True)
class BuiltPackage:
    """The wheel and sdist of a version, with metadata and warnings."""

    wheel: Path
    sdist: Path
    metadata: PackageMetadata
    warnings: tuple[str, ...] = field(default=())


def build_package(project: Project, out: Path) -> BuiltPackage:
    """Build into the directory `out` and check the result as the hub does. Raises PackageError."""
    check_tree(project)
    _check_readme(project)
    out.mkdir(parents=True, exist_ok=True)
    build = _build_in_process if is_plain_hatchling(project.pyproject) else _build_isolated
    wheel, sdist = build(project.directory, out)
    metadata = read_wheel_metadata(wheel)
    keep_last_metadata(sdist, mtime=int(EPOCH))
    if project.readme and not metadata.readme and not _has_readme(sdist):
        add_readme(sdist, project.readme, mtime=int(EPOCH))
    check_pair(metadata, sdist)
    _check_files(wheel, sdist, metadata)
    return BuiltPackage(wheel, sdist, metadata, tuple(_warnings(project, metadata, wheel, sdist)))


def is_plain_hatchling(pyproject: Mapping[str, Any]) -> bool:
    """Return whether the installed hatchling builds this exactly as an isolated build would: no plugins, no hooks."""
    system = pyproject.get("build-system", {})
    if system.get("build-backend") != "hatchling.build" or "backend-path" in system:
        return False
    hatch = pyproject.get("tool", {}).get("hatch", {})
    build = hatch.get("build", {})
    targets = [table for table in build.get("targets", {}).values() if isinstance(table, dict)]
    plugged = any("hooks" in table for table in (build, hatch.get("metadata", {}), *targets))
    source = hatch.get("version", {}).get("source", "regex")
    return not plugged and source == "regex" and _only_hatchling(build_requirements(dict(pyproject)))


def _only_hatchling(requirements: Sequence[str]) -> bool:
    try:
        parsed = [Requirement(text) for text in requirements]
    except InvalidRequirement:
        return False
    have = installed_version("hatchling")
    return all(canonicalize_name(item.name) == "hatchling" and item.specifier.contains(have) for item in parsed)


def _build_in_process(directory: Path, out: Path) -> tuple[Path, Path]:
    try:
        wheel = next(WheelBuilder(str(directory)).build(directory=str(out), versions=["standard"]))
        sdist = next(SdistBuilder(str(directory)).build(directory=str(out), versions=["standard"]))
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        raise PackageError(f"the package does not build: {error}", code="build_failed") from error
    return Path(wheel), Path(sdist)


def _build_isolated(directory: Path, out: Path) -> tuple[Path, Path]:
    """Build the wheel from the unpacked sdist: setuptools' `build` folder still has modules that were deleted."""
    output: list[str] = []
    sdist: Path | None = None

    def run(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        environ = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **(extra_environ or {})}
        done = subprocess.run(cmd, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
        output.append(done.stdout + done.stderr)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, cmd)

    def make(kind: Literal["sdist", "wheel"], source: Path) -> Path:
        builder = ProjectBuilder.from_isolated_env(environment, str(source), runner=run)
        environment.install(builder.build_system_requires)
        environment.install(builder.get_requires_for_build(kind))
        return Path(builder.build(kind, str(out)))

    before = set(_leftovers(directory))
    try:
        with DefaultIsolatedEnv() as environment, tempfile.TemporaryDirectory(prefix="hub-build-") as folder:
            sdist = make("sdist", directory)
            with tarfile.open(sdist) as archive:
                archive.extractall(folder, filter="data")
            (source,) = Path(folder).iterdir()
            return make("wheel", source), sdist
    except (BuildException, BuildBackendException, subprocess.CalledProcessError, tarfile.TarError) as error:
        tail = "\n".join(_told(error, output).strip().splitlines()[-15:]) or str(error)
        if sdist is None:
            raise PackageError(f"the package does not build:\n{tail}", code="build_failed") from error
        raise PackageError(
            f"the wheel cannot be built from the source distribution:\n{tail}",
            code="build_failed",
            hint="It may lack a file that the build reads; with setuptools, MANIFEST.in adds files.",
        ) from error
    finally:
        for path in set(_leftovers(directory)) - before:
            shutil.rmtree(path, ignore_errors=True)


def _leftovers(directory: Path) -> list[Path]:
    """List the folders that backends make beside the sources."""
    return [path for pattern in LEFTOVERS for path in directory.glob(pattern)]


def _told(error: Exception, output: Sequence[str]) -> str:
    """Return what the installer of the build requirements printed, if it failed, or else the backend."""
    said = (error.stdout, error.stderr) if isinstance(error, subprocess.CalledProcessError) else ()
    installer = "".join(part.decode(errors="replace") for part in said if isinstance(part, bytes))
    return installer or "".join(output)


def _check_readme(project: Project) -> None:
    """Raise PackageError if the README that pyproject.toml names is not UTF-8; backends do not say which file it is."""
    named = project.pyproject["project"].get("readme")
    name = named.get("file") if isinstance(named, dict) else named
    path = project.directory / name if isinstance(name, str) else None
    if path is None or not path.is_file():
        return
    try:
        path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise PackageError(f"{name} is not UTF-8: {error}", code="bad_readme", hint="Save it as UTF-8.") from error


def _check_files(wheel: Path, sdist: Path, metadata: PackageMetadata) -> None:
    leaked = secret_files([member.path for path in (wheel, sdist) for member in safe_members(path)])
    if leaked:
        hint = "Name them in .gitignore, or exclude them under [tool.hatch.build]."
        raise PackageError(f"these look like secrets: {', '.join(leaked)}", code="secret_files", hint=hint)
    references.find(metadata.requires_dist)
    check_record(wheel)
    refused = wheel_dangers(wheel).refused
    if refused:
        message = f"the wheel would change its installation: {refused[0]}"
        raise PackageError(message, code="dangerous_wheel", hint=DANGER_HINT)


def _warnings(project: Project, metadata: PackageMetadata, wheel: Path, sdist: Path) -> list[str]:
    found = []
    if not metadata.readme and not _has_readme(sdist):
        found.append("no README in the package: its page on the hub will be empty")
    if not any(canonicalize_name(Requirement(text).name) == "verifiers" for text in metadata.dependencies):
        found.append("the package does not depend on verifiers")
    if sys.version_info >= (3, 11) and not metadata.requires_python:
        found.append("no requires-python: the hub will pick an interpreter")
    if behind := left_behind(project.directory, wheel):
        found.append(f"not in the wheel, though its code asks for it: {', '.join(behind[:5])} ({INCLUDE})")
    if pointers := lfs_pointers(wheel):
        found.append(f"only a Git LFS pointer: {', '.join(pointers[:5])} (run `git lfs pull`, then push)")
    return found


def _has_readme(sdist: Path) -> bool:
    """Return whether a README lies beside pyproject.toml; the hub shows it if the metadata has none."""
    parts = [member.path.split("/") for member in safe_members(sdist)]
    return any(len(path) == 2 and path[1] in README_FILES for path in parts)
