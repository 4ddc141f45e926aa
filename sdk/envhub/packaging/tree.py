"""Walks a package directory, and refuses files that must not be in it before a build packs them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hatchling.builders.config import BuilderConfig
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from envhub.errors import PackageError
from envhub.packaging.project import Project
from envhub.packaging.secret_files import secret_files

SKIPPED = {
    *(".git", ".hg", ".venv", "venv", ".tox", ".nox", ".pixi", "node_modules", "__pycache__", "dist", "build"),
    *("outputs", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
}
VENV_MARK = "pyvenv.cfg"
MAX_TREE_BYTES = 1024 * 1024 * 1024


def check_tree(project: Project) -> None:
    """Refuse trees over 1 GiB, symbolic links to anything outside the package, since a build follows links, and
    virtual environments that the build would pack. What an ignore file keeps out of the build is not looked at.

    Raises PackageError.
    """
    directory, selection, total = project.directory, _selection(project), 0
    for path in walk(directory, selection.leaves_out):
        if path.name == VENV_MARK and selection.packs(str(path.relative_to(directory))):
            raise PackageError(
                f"{path.parent.relative_to(directory)} is a virtual environment",
                code="virtual_environment",
                hint="Name it in .gitignore, or move it out of the package.",
            )
        if path.is_symlink() and not _is_harmless(path, directory.resolve()):
            raise PackageError(
                f"{path.relative_to(directory)} is a symbolic link",
                code="symlink",
                hint="Replace it with the file itself, or move it out of the package.",
            )
        total += path.stat().st_size
        if total > MAX_TREE_BYTES:
            raise _too_large(directory, walk(directory, selection.leaves_out))


def _too_large(directory: Path, files: Iterable[Path]) -> PackageError:
    """Return the error that names what is largest: files at the top, and folders with all that they hold."""
    sizes = Counter[str]()
    for path in files:
        sizes[path.relative_to(directory).parts[0]] += path.stat().st_size
    largest = [
        f"{name} ({size / 1024**3:.2g} GiB)" for name, size in sizes.most_common(3) if size > MAX_TREE_BYTES / 10
    ]
    told = f"; the largest: {', '.join(largest)}" if largest else ""
    return PackageError(
        f"{directory} holds more than 1 GiB{told}",
        code="too_large",
        hint="Name data that the package does not need in .gitignore (hatchling then leaves it out), or move it out of "
        "the folder. `hub data add` keeps a data set on the hub, from which environments load it by name.",
    )


def walk(directory: Path, is_left_out: Callable[[str], bool] = lambda _: False) -> Iterator[Path]:
    """Yield the files of a package and its links to folders, without what tools leave behind.

    Of a virtual environment, only its pyvenv.cfg. `is_left_out` gets relative paths, those of folders with a slash at
    their end.
    """
    for root, folders, files in os.walk(directory):
        inside = Path(root).relative_to(directory)
        if VENV_MARK in files and inside.parts:
            folders[:], files = [], [VENV_MARK]
        folders[:] = [name for name in folders if not _is_tools(name) and not is_left_out(f"{inside / name}/")]
        for name in files:
            if not is_left_out(str(inside / name)):
                yield Path(root) / name
        yield from (path for name in folders if (path := Path(root) / name).is_symlink())


def _is_tools(folder: str) -> bool:
    return folder in SKIPPED or folder.endswith(".egg-info")


def _is_harmless(link: Path, inside: Path) -> bool:
    """Return whether a link leads to a file or folder of the package that could itself be published.

    A folder that contains the link does not count.
    """
    try:
        target = link.resolve()
    except (OSError, RuntimeError):  # a link to itself
        return False
    if not target.exists() or not target.is_relative_to(inside) or link.absolute().is_relative_to(target):
        return False
    path = target.relative_to(inside)
    return not SKIPPED.intersection(path.parts) and not secret_files([path.as_posix()])


@dataclass(frozen=True)
class _Selection:
    """Which files hatchling packs, by its own reading of .gitignore, .hgignore and [tool.hatch.build].

    Without configurations, as for other backends, nothing is known to be left out or packed.
    """

    wheel_and_sdist: tuple[BuilderConfig, ...] = ()

    def leaves_out(self, path: str) -> bool:
        """Return whether a path is in neither archive. `artifacts` brings ignored files back."""
        return bool(self.wheel_and_sdist) and all(
            config.artifact_spec is None and config.path_is_excluded(path) for config in self.wheel_and_sdist
        )

    def packs(self, path: str) -> bool:
        """Return whether the file is in the sdist."""
        if not self.wheel_and_sdist:
            return False
        sdist = self.wheel_and_sdist[1]
        only = sdist.only_include.values()
        return sdist.include_path(path) and (not only or any(Path(path).is_relative_to(folder) for folder in only))


def _selection(project: Project) -> _Selection:
    system = project.pyproject.get("build-system", {})
    if not isinstance(system, dict) or system.get("build-backend") != "hatchling.build":
        return _Selection()
    builders = WheelBuilder(str(project.directory)), SdistBuilder(str(project.directory))
    try:
        found = _Selection(tuple(builder.config for builder in builders))
        found.leaves_out("pyproject.toml")
        found.packs("pyproject.toml")
    except (ValueError, TypeError, OSError):  # the build will say what is wrong
        return _Selection()
    return found
