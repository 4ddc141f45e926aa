"""Reads the headers of tars from outside within bounds: `tarfile.open(..., tarinfo=BoundedHeader)`.

`tarfile` reads extended headers whole and expands sparse maps into objects before its caller sees the member, so that a
few megabytes could take gigabytes of memory.
"""

from __future__ import annotations

import tarfile

LARGEST = 64 * 1024  # bytes of an extended header; paths have 4 KiB at most
LARGEST_GLOBAL, MOST_GLOBAL = 8 * 1024, 100  # every member gets a copy of the records of global headers
EXTENDED = frozenset(
    {
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
    }
)


class BoundedHeader(tarfile.TarInfo):
    """A member whose headers are small and which is not sparse. Reading any other raises tarfile.ReadError.

    Not a HeaderError: `TarFile.next` takes some of those for the end of the archive.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        if self.type in EXTENDED and not 0 <= self.size <= LARGEST:
            raise tarfile.ReadError("a header is too large")
        if self.type == tarfile.XGLTYPE and (self.size > LARGEST_GLOBAL or len(archive.pax_headers) > MOST_GLOBAL):
            raise tarfile.ReadError("the global headers are too large")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member

    def _refuse_sparse(self, *_: object) -> None:
        raise tarfile.ReadError("a file is sparse; pack it without --sparse")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse
