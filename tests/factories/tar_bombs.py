"""Tars whose headers would take far more memory than their bytes, or are sparse."""

from __future__ import annotations

import io
import tarfile


def with_header(kind: bytes, size: int) -> bytes:
    """An extended header of this size, and a file."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT) + b"a" * size + bytes(-size % 512) + tar(tarfile.TarInfo("file"))


def many_global_headers(count: int) -> bytes:
    """Global headers with another record each, and a file."""
    headers = [tarfile.TarInfo.create_pax_global_header({f"key{number}": "x"}) for number in range(count)]
    return b"".join(headers) + tar(tarfile.TarInfo("file"))


def sparse(minor: str = "0", count: int = 3) -> bytes:
    """A file in GNU's sparse format 1.0, or 0.1 with another `minor`, with `count` pieces."""
    info = tarfile.TarInfo("sparse")
    content = b"%d\n" % count + b"0\n" * (2 * count)
    info.size = len(content)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "0"}
    if minor != "0":
        info.pax_headers = {"GNU.sparse.map": ",".join(["0"] * 2 * count), "GNU.sparse.size": "0"}
    return tar(info, content)


def old_sparse() -> bytes:
    """A file in GNU's first sparse format."""
    info = tarfile.TarInfo("sparse")
    info.type = tarfile.GNUTYPE_SPARSE
    return tar(info)


def tar(info: tarfile.TarInfo, content: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


BOMBS = {
    "sparse 1.0": sparse(),
    "sparse 0.1": sparse("1"),
    "sparse": old_sparse(),
    "long name": with_header(tarfile.GNUTYPE_LONGNAME, 100_000),
    "pax": with_header(tarfile.XHDTYPE, 100_000),
    "global": with_header(tarfile.XGLTYPE, 10_000),
    "globals": many_global_headers(200),
}
