"""Apply the layers of an image to a tree: later ones over earlier ones, with whiteouts.

This is our own code on `tarfile` and openat2, because layers are hostile. umoci has no budgets, keeps setuid bits,
creates files in place of devices and hashes the whole tree afterwards.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from typing import IO

from envhub.packaging.archives.tar_headers import BoundedHeader

from workers.images.errors import BadImage
from workers.images.streams import MIB, Budget, Forward
from workers.images.tree import Tree, mode_of, parts_of, remove

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
LATEST = 2**33  # seconds since the epoch
SKIPPED = frozenset({tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE})  # archives cannot contain sockets
HOSTS_OWN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.ENOMEM})
Seen = Callable[[str], None]


class Layer:
    """One layer being applied. `keep_links`: a link in the tree may serve as a directory of the layer, as in dpkg."""

    def __init__(
        self,
        tree: Tree,
        budget: Budget,
        *,
        whiteouts: bool = True,
        keep_links: bool = False,
        wanted: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._tree, self._budget = tree, budget
        self._whiteouts, self._keep_links, self._wanted = whiteouts, keep_links, wanted
        # (inode of the directory, name) of entries that an opaque whiteout of this layer keeps
        self._mine: set[tuple[int, str]] = set()
        self._modes: dict[tuple[str, ...], int] = {}

    def apply(self, stream: IO[bytes], seen: Seen | None = None) -> None:
        """Apply a plain tar stream. Raises BadImage."""
        try:
            source = Forward(stream, self._budget)
            with tarfile.open(fileobj=source, mode="r:", encoding="utf-8", tarinfo=BoundedHeader) as archive:
                while (info := archive.next()) is not None:
                    archive.members = []  # type: ignore[attr-defined]  # otherwise the list grows with the archive
                    self._budget.take_file()
                    if not self._wanted(info.name):
                        continue
                    self._write(archive, info)
                    if seen is not None:
                        seen(info.name)
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
            raise BadImage(f"its archive is broken: {error}") from error
        except OSError as error:
            if error.errno in HOSTS_OWN:
                raise
            raise BadImage(f"a file of it cannot be written: {error}") from error
        self._settle_modes()

    def _write(self, archive: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        parts = parts_of(info.name)
        if not parts or info.type in SKIPPED:
            return
        name = parts[-1]
        with self._tree.directory(parts[:-1], make=True) as parent:
            inode = os.fstat(parent).st_ino
            if self._whiteouts and name.startswith(WHITEOUT):
                self._white_out(parent, inode, name)
                return
            self._mine.add((inode, name))
            if info.isdir():
                self._directory(parent, parts, info.mode)
            elif info.issym():
                remove(parent, name)
                os.symlink(_target(info), name, dir_fd=parent)
            elif info.islnk():
                self._hard_link(parent, name, info)
            elif info.isreg():
                self._file(archive, info, parent, name)
            # unknown types are skipped, as tar does

    def _directory(self, parent: int, parts: list[str], mode: int) -> None:
        found = mode_of(parent, parts[-1])
        if self._keep_links and found is not None and not stat.S_ISDIR(found):
            return
        self._tree.make_directory(parent, parts[-1])
        self._modes[tuple(parts)] = mode

    def _file(self, archive: tarfile.TarFile, info: tarfile.TarInfo, parent: int, name: str) -> None:
        if info.size < 0 or info.size > self._budget.max_bytes:
            raise BadImage(f"{info.name[:200]!r} claims to have {info.size} bytes")
        remove(parent, name)
        source = archive.extractfile(info)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=parent)
        with os.fdopen(descriptor, "wb") as sink:
            if source is not None:
                shutil.copyfileobj(source, sink, MIB)
            if sink.tell() != info.size:
                raise BadImage(f"{info.name[:200]!r} ends too early")
            sink.flush()
            os.fchmod(descriptor, info.mode & 0o777 | 0o600)
            moment = min(max(int(info.mtime), 0), LATEST)
            os.utime(descriptor, (moment, moment))  # byte code is valid only for sources with this time

    def _hard_link(self, parent: int, name: str, info: tarfile.TarInfo) -> None:
        target = parts_of(info.linkname)
        if not target:
            raise BadImage(f"{info.name[:200]!r} is a hard link to the root")
        with self._tree.directory(target[:-1]) as other:
            if os.path.samestat(os.fstat(other), os.fstat(parent)) and target[-1] == name:
                return
            remove(parent, name)
            os.link(target[-1], name, src_dir_fd=other, dst_dir_fd=parent, follow_symlinks=False)

    def _white_out(self, parent: int, inode: int, name: str) -> None:
        if name == OPAQUE:
            self._clear(parent)
            return
        hidden = name.removeprefix(WHITEOUT)
        if hidden in ("", ".", ".."):
            raise BadImage(f"a whiteout of no file: {name!r}")
        if (inode, hidden) not in self._mine:
            remove(parent, hidden)

    def _clear(self, directory: int) -> None:
        """Remove what earlier layers have put below a directory."""
        inode = os.fstat(directory).st_ino
        for name in os.listdir(directory):
            found = mode_of(directory, name)
            if (inode, name) not in self._mine:
                remove(directory, name)
            elif found is not None and stat.S_ISDIR(found):
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
                try:
                    self._clear(below)
                finally:
                    os.close(below)

    def _settle_modes(self) -> None:
        """Set directory modes last, so that they do not block our own writes.

        The owner, who is root in the image, can always write.
        """
        for parts, mode in self._modes.items():
            try:
                with self._tree.directory(list(parts)) as directory:
                    os.fchmod(directory, mode & 0o777 | 0o700)
            except (FileNotFoundError, BadImage):  # replaced by a later entry
                continue


def _target(info: tarfile.TarInfo) -> str:
    if not info.linkname or "\0" in info.linkname:
        raise BadImage(f"{info.name[:200]!r} is a link to nothing")
    return info.linkname
