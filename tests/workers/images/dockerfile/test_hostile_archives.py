"""ADD looks into every file to see whether it is an archive."""

from __future__ import annotations

import gzip
import os
import tarfile
import tracemalloc
from pathlib import Path

from workers.images.dockerfile.copying import _is_archive
from workers.images.dockerfile.walk import walk

MIB = 1024 * 1024


def test_a_name_of_hundreds_of_megabytes_is_not_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 256 * MIB
    with gzip.open(tmp_path / "bomb.tar.gz", "wb", compresslevel=1) as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(256):
            packed.write(bytes(MIB))
    directory = os.open(tmp_path, os.O_RDONLY)
    tracemalloc.start()
    try:
        assert [_is_archive(entry) for entry in walk(directory)] == [False]
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
        os.close(directory)
