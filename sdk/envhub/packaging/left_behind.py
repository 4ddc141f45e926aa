"""Finds files that a wheel's modules refer to but that the wheel lacks, files that are only Git LFS pointers, and
wheels without an environment.

Such a package works only in its author's folder, so `hub push` warns.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from envhub.packaging import verifiers_usage

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
MOST_FILES = 2000
_NEVER_READ = {"pyproject.toml", "setup.py", "setup.cfg", "uv.lock"}


def left_behind(project: Path, wheel: Path) -> list[str]:
    """List files and folders of the project that a module in the wheel imports or names but that the wheel lacks."""
    members, sources = _sources(wheel)
    source = "\n".join(sources.values())
    packed = {name.rpartition("/")[2] for name in members}
    packages = {name.partition("/")[0] for name in members if "/" in name}
    files = [
        path.relative_to(project).as_posix()
        for path in islice(_beside(project, packages), MOST_FILES)
        if path.name not in packed | _NEVER_READ and _asked_for(path, source)
    ]
    folders = sorted({path.parent.name for path in project.glob("*/__init__.py")} - packages)
    return [*files, *(f"{name}/" for name in folders if _imported(name, source))]


def has_environment(wheel: Path) -> bool:
    """Return whether a module in the wheel makes or imports a load_environment, or speaks of a taskset."""
    sources = _sources(wheel)[1]
    loaders = verifiers_usage.read(sources).functions.keys() & {"load_environment", "load_taskset"}
    return bool(loaders) or any(re.search(r"Taskset|def load_environment\b", source) for source in sources.values())


def _sources(wheel: Path) -> tuple[list[str], dict[str, str]]:
    """Return the members of a wheel beside its metadata, and the text of each module."""
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if ".dist-info/" not in name]
        return members, {n: archive.read(n).decode(errors="replace") for n in members if n.endswith(".py")}


def lfs_pointers(wheel: Path) -> list[str]:
    """List members that are Git LFS pointers instead of the files themselves."""
    with zipfile.ZipFile(wheel) as archive:
        small = [info for info in archive.infolist() if info.file_size < 1024]
        return [info.filename for info in small if archive.read(info).startswith(LFS_POINTER)]


def _beside(project: Path, packages: set[str]) -> Iterator[Path]:
    """Yield the files directly in the project's folder, and all files below the folders of its packages."""
    yield from (path for path in sorted(project.iterdir()) if path.is_file() and not path.name.startswith((".", "_")))
    for name in sorted(packages):
        for folder in (project / name, project / "src" / name):
            yield from (path for path in sorted(folder.rglob("*")) if path.is_file())


def _asked_for(path: Path, source: str) -> bool:
    """Return whether the source imports this module, or has a string that ends with this file's name."""
    if path.name == "__init__.py":
        return True
    if path.suffix == ".py":
        return _imported(path.stem, source)
    return re.search(rf"['\"/]{re.escape(path.name)}['\"]", source) is not None


def _imported(name: str, source: str) -> bool:
    return re.search(rf"^\s*(?:from|import)\s+\.?{re.escape(name)}\b", source, re.MULTILINE) is not None
