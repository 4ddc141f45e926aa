"""COPY and ADD: copy files from a folder (the build's context, another stage or image) into the image being built."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from envhub.packaging.archives.tar_headers import BoundedHeader

from workers.images.dockerfile.ignore import Ignored, Pattern
from workers.images.dockerfile.walk import Entry, pack, walk
from workers.images.errors import BadImage
from workers.images.layers import Layer
from workers.images.streams import MIB, Budget, Forward, decompressed
from workers.images.tree import Tree, parts_of

WILD = frozenset("*?[")
IGNORE_FILES = ("Dockerfile.dockerignore", ".dockerignore")
Keep = Callable[[str], bool]


@dataclass(frozen=True)
class Folder:
    """A directory to copy from; paths in `ignored` do not exist in it."""

    root: Path
    ignored: Ignored = field(default_factory=Ignored)

    @classmethod
    def context(cls, root: Path) -> Folder:
        """Return the context of a build. Raises ValueError for an invalid .dockerignore."""
        for name in IGNORE_FILES:
            path = root / name
            if path.is_file() and not path.is_symlink():
                with path.open(errors="replace") as file:
                    return cls(root, Ignored.of(file.read(MIB)))
        return cls(root)

    def entries(self, parts: Sequence[str] = ()) -> Iterator[Entry]:
        """Yield everything below one of its directories, with paths relative to that.

        Raises BadImage, FileNotFoundError.
        """
        above = "".join(f"{part}/" for part in parts)
        with Tree(self.root) as tree, tree.directory(list(parts)) as directory:
            for entry in walk(directory):
                if not self.ignored.hides(above + entry.path):
                    yield entry

    def digest(self) -> str:
        """Return the digest of all names, modes and contents. Raises BadImage."""
        found = hashlib.sha256()
        for entry in self.entries():
            kind = stat.S_IFMT(entry.about.st_mode)
            found.update(f"{kind:o} {entry.about.st_mode & 0o111:o} {len(entry.path)} ".encode())
            found.update(os.fsencode(entry.path))
            if entry.is_file:
                with entry.open() as content:
                    found.update(hashlib.file_digest(content, "sha256").digest())
            elif entry.is_link:
                found.update(os.fsencode(entry.target()) + b"\0")
        return found.hexdigest()

    def has_directory(self, parts: Sequence[str]) -> bool:
        """Return whether a path leads to a directory."""
        with Tree(self.root) as tree:
            return not self.ignored.hides("/".join(parts)) and leads_to_directory(tree, parts)

    @contextmanager
    def file(self, parts: Sequence[str]) -> Iterator[Entry]:
        """Yield one file or link. Raises FileNotFoundError with its path."""
        path = "/".join(parts)
        if not parts or self.ignored.hides(path):
            raise FileNotFoundError(path)
        with Tree(self.root) as tree, ExitStack() as stack:
            try:
                parent = stack.enter_context(tree.directory(list(parts[:-1])))
                about = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
            except (FileNotFoundError, BadImage) as error:
                raise FileNotFoundError(path) from error
            yield Entry(parts[-1], parent, parts[-1], about)

    def matches(self, source: str) -> list[str]:
        """Return the paths that match a source of COPY; without a wildcard, the source itself."""
        path = "/".join(parts_of(source))
        if not WILD & set(path):
            return [path]
        pattern = Pattern(path)
        return [entry.path for entry in self.entries() if pattern.matches(entry.path)]


@dataclass(frozen=True)
class Copy:
    """What one instruction asks for. `unpacks`: local archives are unpacked (ADD)."""

    sources: Sequence[str]
    target: str  # absolute; a directory if it ends in a slash
    mode: int | None = None
    unpacks: bool = False


def copy(folder: Folder, what: Copy, tree: Tree, budget: Budget, scratch: Path) -> None:
    """Copy files into the tree. Raises BadImage, FileNotFoundError (with the source's name), ValueError."""
    found = [path for source in what.sources for path in _found(folder, source)]
    into = what.target.endswith("/") or len(found) > 1 or leads_to_directory(tree, parts_of(what.target))
    target = "/".join(parts_of(what.target))
    with _layer(tree, budget, scratch) as archive:
        for path in found:
            parts = path.split("/") if path else []
            if folder.has_directory(parts):
                _copy_directory(folder, parts, target, what, tree, archive)
                continue
            with folder.file(parts) as entry:
                if what.unpacks and entry.is_file and _is_archive(entry):
                    _unpack(entry, target, tree, budget)
                else:
                    name = f"{target}/{entry.name}".lstrip("/") if into else target
                    pack(archive, entry, name, what.mode)


def write_files(files: Sequence[tuple[str, bytes]], mode: int, tree: Tree, budget: Budget, scratch: Path) -> None:
    """Write the here-documents of a Dockerfile to absolute paths."""
    with _layer(tree, budget, scratch) as archive, tempfile.TemporaryFile(dir=scratch) as content:
        for path, text in files:
            info = tarfile.TarInfo("/".join(parts_of(path)))
            info.mode, info.size = mode, len(text)
            content.seek(0)
            content.write(text)
            content.seek(0)
            archive.addfile(info, content)


def _found(folder: Folder, source: str) -> list[str]:
    matches = folder.matches(source)
    if not matches:
        raise FileNotFoundError(source)
    return matches


def _copy_directory(
    folder: Folder, parts: Sequence[str], target: str, what: Copy, tree: Tree, archive: tarfile.TarFile
) -> None:
    """Copy the content of a directory, but not the directory itself."""
    if target:
        _ensure(tree, target)
    for entry in folder.entries(parts):
        pack(archive, entry, f"{target}/{entry.path}".lstrip("/"), what.mode)


def leads_to_directory(tree: Tree, parts: Sequence[str]) -> bool:
    """Return whether a path leads to a directory, also through links."""
    try:
        with tree.directory(list(parts)):
            return True
    except (FileNotFoundError, BadImage):
        return False


def _ensure(tree: Tree, path: str) -> None:
    with tree.directory(parts_of(path), make=True):
        pass


def _is_archive(entry: Entry) -> bool:
    with entry.open() as content:
        try:
            with (
                decompressed(content) as plain,
                tarfile.open(fileobj=Forward(plain, Budget()), mode="r:", tarinfo=BoundedHeader) as archive,
            ):
                return archive.next() is not None
        except (tarfile.TarError, BadImage, ValueError, EOFError, OSError, RecursionError):
            return False


def _unpack(entry: Entry, target: str, tree: Tree, budget: Budget) -> None:
    _ensure(tree, target or "/")
    budget.packed += entry.about.st_size
    with (
        tree.directory(parts_of(target)) as place,
        Tree(Path(f"/proc/self/fd/{place}")) as below,
        entry.open() as content,
        decompressed(content) as plain,
    ):
        Layer(below, budget, whiteouts=False, keep_links=True).apply(plain)


@contextmanager
def _layer(tree: Tree, budget: Budget, scratch: Path) -> Iterator[tarfile.TarFile]:
    """Yield an archive that is applied to the tree when the context ends."""
    with tempfile.TemporaryFile(dir=scratch) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive:
            yield archive
        budget.packed += file.tell()
        file.seek(0)
        Layer(tree, budget, whiteouts=False, keep_links=True).apply(file)
