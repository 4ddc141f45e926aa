"""Recognises what people have of an image, and makes one archive of it: `hub image add`, `python -m workers.images`."""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, cast

from envhub.errors import ArchiveError
from envhub.protocol.sandboxes.images import Layout

HINT = "give the tar of `docker save` or `podman save`, an OCI layout, or a root file system (a directory or its tar)"
ROOT = frozenset({"bin", "usr", "etc", "lib"})
LEVEL = 3  # of compression: layers that are compressed already gain nothing by more
ZSTD = b"\x28\xb5\x2f\xfd"
SKIPPED = frozenset({tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE})


def recognise(path: Path) -> Layout:
    """What a directory or a tar (gzip or plain) holds. Raises ArchiveError."""
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else _top_names(path)
    if "manifest.json" in names:
        return "docker"
    if "index.json" in names:
        return "oci"
    if names & ROOT:
        return "rootfs"
    raise ArchiveError(f"{path} is no image", code="no_image", hint=HINT)


def _top_names(path: Path) -> set[str]:
    with path.open("rb") as stream:
        if stream.read(4) == ZSTD:
            hint = f"unpack it first (zstd -d {path.name}), or say what it is: --layout oci, docker or rootfs"
            raise ArchiveError(f"{path} is compressed with zstd", code="no_image", hint=hint)
    found: set[str] = set()
    try:
        with tarfile.open(path, "r|*") as archive:
            for info in archive:
                archive.members = []  # type: ignore[attr-defined]
                parts = [part for part in info.name.split("/") if part not in ("", ".")]
                found.update(parts[:1])
                if "manifest.json" in found or len(found & ROOT) > 1:
                    break
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ArchiveError(f"{path} is no tar", code="no_image", hint=HINT) from error
    return found


@contextmanager
def archived(path: Path) -> Iterator[Path]:
    """An image's tar: itself, or one that is made of a directory and goes with the context."""
    if not path.is_dir():
        yield path
        return
    with NamedTemporaryFile(prefix="hub-image-", suffix=".tar.gz") as packed:
        pack(path, cast("IO[bytes]", packed))
        packed.flush()
        yield Path(packed.name)


def pack(folder: Path, target: IO[bytes]) -> None:
    """Write a directory's content as tar.gz: the same content gives the same bytes, but for times of its files."""
    with (
        gzip.GzipFile(fileobj=target, mode="wb", compresslevel=LEVEL, mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for place, folders, files in os.walk(folder):
            folders.sort()
            for name in sorted([*files, *folders]):
                _add(archive, Path(place, name), folder)
            archive.members = []  # type: ignore[attr-defined]  # hard links are known by archive.inodes


def _add(archive: tarfile.TarFile, path: Path, folder: Path) -> None:
    info = archive.gettarinfo(path, arcname=str(path.relative_to(folder)))  # None: a socket
    if info is None or info.type in SKIPPED:
        return
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    if info.isreg():
        with path.open("rb") as stream:
            archive.addfile(info, stream)
    else:
        archive.addfile(info)
