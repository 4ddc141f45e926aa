"""Streams the members of a tar.gz, decompressing within a byte budget."""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, cast

from envhub.errors import ArchiveError
from envhub.packaging.archives.broken import checked
from envhub.packaging.archives.member_names import check_name, shown
from envhub.packaging.archives.tar_headers import BoundedHeader
from envhub.packaging.archives.zip_members import Entry

HEADER_ALLOWANCE = 32 * 1024 * 1024  # for tar and pax headers, on top of the files' own bytes


class _Budgeted(io.RawIOBase):
    """A reader of gzip data that raises ArchiveError once more than `limit` bytes came out."""

    def __init__(self, source: IO[bytes], limit: int) -> None:
        self._source, self._left = source, limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        data = self._source.read(wanted)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError("unpacks to more bytes than allowed", code="too_large")
        return data


def entries(stream: IO[bytes], *, max_unpacked: int) -> Iterator[Entry]:
    """Yield every member in file order. Open an entry before asking for the next one. Raises ArchiveError."""
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as unzipped:
            source = _Budgeted(cast("IO[bytes]", unzipped), max_unpacked + HEADER_ALLOWANCE)
            with tarfile.open(
                fileobj=source, mode="r|", encoding="utf-8", errors="strict", tarinfo=BoundedHeader
            ) as archive:
                for info in archive:
                    yield _entry(archive, info)
                    archive.members = []  # type: ignore[attr-defined]  # else the list grows with the archive
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError, RecursionError) as error:
        raise ArchiveError(f"broken tar.gz file: {error}", code="broken_archive") from error


def _entry(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Entry:
    if info.type == tarfile.SYMTYPE:
        _check_link(info)
        return Entry(info.name, 0, info.mode, False, lambda: _open(archive, info), link=True)
    if info.type == tarfile.LNKTYPE:
        hint = "Pack it from plain copies (tar --hard-dereference)."
        raise ArchiveError(f"{shown(info.name)!r} is a hard link", code="unsafe_member", hint=hint)
    if info.type not in {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE}:
        raise ArchiveError(f"{shown(info.name)!r} is a special file", code="unsafe_member")
    return Entry(info.name, info.size, info.mode, info.isdir(), lambda: _open(archive, info))


def _check_link(info: tarfile.TarInfo) -> None:
    """Refuse a symbolic link that leads outside its top-level folder, since it would escape wherever it is unpacked."""
    root, _, rest = check_name(info.name).partition("/")
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(rest), info.linkname))
    if not rest or info.linkname.startswith("/") or inside.split("/")[0] == "..":
        message = f"{shown(info.name)!r} is a link to {shown(info.linkname)!r}, outside of {root!r}"
        raise ArchiveError(message, code="unsafe_member", hint="Replace the link with the file itself.")


def _open(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(info)
    if stream is None:
        raise ArchiveError(f"{info.name!r} has no content", code="unsafe_member")
    return checked(stream)
