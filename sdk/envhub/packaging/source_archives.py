"""Reads folders of environments as users pack them (.zip, .tar.gz) and finds the project in them without running it.

The hub reads an upload with it, and the worker that builds the upload repacks it in the form of an sdist.
"""

from __future__ import annotations

import gzip
import struct
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envhub.errors import PackageError
from envhub.packaging.archives.reading import Member, read_members, safe_members, unpack
from envhub.packaging.metadata import METADATA_LIMIT, README_FILES, build_requirements, parse_pyproject
from envhub.packaging.project import SLUG

TOP = "source"  # the only top-level folder of a repacked archive
METADATA = "PKG-INFO"  # the file of an sdist's metadata, at the top of its folder
VERSIONS_FROM_GIT = frozenset({  # build requirements that fall back to PKG-INFO where there is no repository
    "setuptools-scm", "hatch-vcs", "vcs-versioning", "versioningit",
    "setuptools-git-versioning", "uv-dynamic-versioning",
})  # fmt: skip
MOST_NAMED = 8
_NOWHERE = {
    *(".git", ".hg", ".venv", ".tox", ".nox", ".pixi", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache"),
    *(".ruff_cache", "__MACOSX", ".DS_Store"),
}
_NOT_AT_THE_TOP = {"venv", "dist", "build", "outputs"}  # deeper in the tree these may be part of the package
_END, _LONGEST_COMMENT = 22, 65_535


@dataclass(frozen=True)
class SourceArchive:
    """The project found in an archive. `folder` is the path of its pyproject.toml's folder, "" for the top."""

    folder: str
    name: str  # normalised; also the environment's name
    requires_python: str


def read_source(archive: Path) -> SourceArchive:
    """Find the project's pyproject.toml and read it.

    Raises PackageError (`no_pyproject`, `several_projects`, `no_name`, `bad_name`) and whatever `safe_members`
    raises.
    """
    folder = _folder(safe_members(archive))
    path = f"{folder}/pyproject.toml".removeprefix("/")
    content = read_members(archive, lambda member: member.path == path, limit=METADATA_LIMIT)
    project = parse_pyproject(content.get(path, b"")).get("project")
    name = project.get("name") if isinstance(project, dict) else None
    if not isinstance(project, dict) or not isinstance(name, str):
        hint = 'Write [project] with name = "my-env" into it; `hub init` makes such a file.'
        raise PackageError(f"{path} has no [project] name", code="no_name", hint=hint)
    if not SLUG.fullmatch(slug := canonicalize_name(name)):
        message = f"{name[:100]!r} cannot be an environment's name"
        raise PackageError(message, code="bad_name", hint="Use a-z, 0-9 and dashes.")
    wanted = project.get("requires-python")
    return SourceArchive(folder, slug, wanted if isinstance(wanted, str) else "")


def repack_source(archive: Path, folder: str, target: Path) -> Path | None:
    """Write the project as a tar.gz with the only folder TOP, without what no build needs (`.git`, `.venv`, ...) and
    without the metadata of an earlier build, unless `needs_metadata`.

    Its README is put beside the archive; returns the README's path, or None if there is none. Raises ArchiveError.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as place:
        tree = Path(place) / "tree"
        members = unpack(archive, tree)
        prefix = f"{folder}/" if folder else ""
        kept = [member for member in members if member.path.startswith(prefix) and not _is_skipped(member.path, prefix)]
        if not needs_metadata(parse_pyproject((tree / folder / "pyproject.toml").read_bytes())):
            kept = [member for member in kept if member.path != f"{prefix}{METADATA}"]
        with tarfile.open(target, "w:gz") as packed:
            for member in kept:
                packed.add(tree / member.path, f"{TOP}/{member.path.removeprefix(prefix)}", recursive=False)
        readme = next((path for name in README_FILES if (path := tree / folder / name).is_file()), None)
        return readme.rename(target.parent / readme.name) if readme else None


def needs_metadata(pyproject: Mapping[str, Any]) -> bool:
    """Return whether a build from an unpacked sdist takes the version from its PKG-INFO, for lack of a repository.

    Elsewhere that file is in the way: hatchling packs it beside the one that it writes, and prefers its version.
    """
    project = pyproject.get("project")
    dynamic = project.get("dynamic") if isinstance(project, dict) else None
    return (
        isinstance(dynamic, list)
        and "version" in dynamic
        and any(_requirement_name(text) in VERSIONS_FROM_GIT for text in build_requirements(dict(pyproject)))
    )


def _requirement_name(text: str) -> str:
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""


def drop_comment(archive: Path) -> None:
    """Cut the comment off the end of a zip: code hosts add one, and package readers refuse it."""
    with archive.open("r+b") as file:
        if file.read(4) != b"PK\x03\x04":
            return
        size = file.seek(0, 2)
        begin = file.seek(max(0, size - _END - _LONGEST_COMMENT))
        tail = file.read()
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + _END > len(tail):
            return
        (length,) = struct.unpack("<H", tail[at + 20 : at + 22])
        if length and at + _END + length == len(tail):
            file.seek(begin + at + 20)
            file.write(b"\0\0")
            file.truncate(begin + at + _END)


def sdist_of_wheel(wheel: Path, beside: Mapping[str, bytes], target: Path) -> None:
    """Make an sdist for a pure wheel that came without one: the wheel's files and those `beside` them, by their paths.

    The same wheel gives the same bytes.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as place:
        tree = Path(place) / "tree"
        members = [member for member in unpack(wheel, tree) if not member.path.split("/")[0].endswith(".dist-info")]
        for name, content in beside.items():
            (tree / name).write_bytes(content)
        paths = {*beside, *(member.path for member in members)}
        _pack(tree, paths, target, root=f"{target.name.removesuffix('.tar.gz')}/")


def sdist_of_source(source: Path, raw: bytes, target: Path) -> None:
    """Make an sdist from a packed project for a wheel built from it elsewhere: its files beside the METADATA `raw`.

    Raises the same errors as `read_source`.
    """
    folder = read_source(source).folder
    prefix = f"{folder}/" if folder else ""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as place:
        tree = Path(place) / "tree"
        members = [member.path for member in unpack(source, tree) if member.path.startswith(prefix)]
        kept = {path.removeprefix(prefix) for path in members if not _is_skipped(path, prefix)}
        (tree / folder / METADATA).write_bytes(raw)
        _pack(tree / folder, {METADATA, *kept}, target, root=f"{target.name.removesuffix('.tar.gz')}/")


def source_of_sdist(sdist: Path, target: Path) -> None:
    """Pack the content of an sdist's folder without the folder itself; reverses `sdist_of_source`."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as place:
        tree = Path(place) / "tree"
        paths = [member.path for member in unpack(sdist, tree)]
        root = paths[0].split("/")[0] if paths else ""
        inside = {path.removeprefix(f"{root}/") for path in paths}
        _pack(tree / root, inside - {METADATA}, target, root="")


def _pack(tree: Path, paths: Iterable[str], target: Path, *, root: str) -> None:
    """Write a tar.gz of these files of a tree, each below `root`. The same files give the same bytes."""
    with (
        target.open("wb") as out,
        gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(paths):
            _add(archive, tree / path, f"{root}{path}")


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    stat = path.stat()
    entry.size, entry.mode = stat.st_size, stat.st_mode & 0o777
    with path.open("rb") as content:
        archive.addfile(entry, content)


def _folder(members: Iterable[Member]) -> str:
    """Return the project's folder: the top, or one folder below it. Raises PackageError."""
    paths = [member.path for member in members if not _is_skipped(member.path, "")]
    found = [path for path in paths if path.split("/")[-1] == "pyproject.toml"]
    found.sort(key=lambda path: path.count("/"))
    if not found or found[0].count("/") > 1:
        hint = "Pack the folder of an environment, the one that holds pyproject.toml; `hub init NAME` makes one."
        raise PackageError("the archive has no pyproject.toml at its top", code="no_pyproject", hint=hint)
    shallowest = [path for path in found if path.count("/") == found[0].count("/")]
    if len(shallowest) > 1:
        names = ", ".join(path.removesuffix("/pyproject.toml") for path in shallowest[:5])
        hint = "Upload each environment in an archive of its own."
        raise PackageError(f"the archive holds several projects: {names}", code="several_projects", hint=hint)
    return found[0].rpartition("/")[0]


def projects_below(archive: Path, folder: str) -> list[str]:
    """Return the folders below a project's that have a pyproject.toml of their own, relative to it."""
    prefix = f"{folder}/" if folder else ""
    paths = [member.path for member in safe_members(archive) if member.path.startswith(prefix)]
    inside = [path.removeprefix(prefix) for path in paths if not _is_skipped(path, prefix)]
    return sorted(path.removesuffix("/pyproject.toml") for path in inside if path.endswith("/pyproject.toml"))


def named_below(packages: Sequence[object]) -> str:
    """Return a sentence that names them; "" if there are none."""
    if not packages:
        return ""
    more = f" and {len(packages) - MOST_NAMED} more" if len(packages) > MOST_NAMED else ""
    return f"Packages below it: {', '.join(map(str, packages[:MOST_NAMED]))}{more}."


def _is_skipped(path: str, prefix: str) -> bool:
    """Return whether a path is something that tools leave behind, which is neither packed nor searched for projects."""
    parts = path.removeprefix(prefix).split("/")
    return bool(_NOWHERE.intersection(parts)) or parts[0] in _NOT_AT_THE_TOP or parts[0].endswith(".egg-info")
