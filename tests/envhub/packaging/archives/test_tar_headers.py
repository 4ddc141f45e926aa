from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from envhub.errors import ArchiveError
from envhub.packaging.archives.reading import Budget, safe_members
from envhub.packaging.archives.tar_headers import BoundedHeader

from tests.factories.tar_bombs import BOMBS, many_global_headers


def names(content: bytes, mode: str = "r:") -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content), mode=mode, tarinfo=BoundedHeader) as archive:  # type: ignore[call-overload]
        found: list[str] = archive.getnames()
    return found


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("mode", ["r:", "r|"])
def test_headers_that_take_much_memory_are_refused_and_do_not_look_like_the_end(bomb: str, mode: str) -> None:
    with pytest.raises(tarfile.ReadError, match=r"too large|is sparse"):
        names(BOMBS[bomb], mode)


def test_ordinary_headers_are_read() -> None:
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as archive:
            archive.addfile(tarfile.TarInfo("ä" * 2000))
        assert names(out.getvalue()) == ["ä" * 2000]
    assert names(many_global_headers(9)) == ["file"]


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_package_with_such_a_header_is_broken(tmp_path: Path, bomb: str) -> None:
    (tmp_path / "archive").write_bytes(gzip.compress(BOMBS[bomb]))
    with pytest.raises(ArchiveError, match=r"too large|is sparse") as caught:
        safe_members(tmp_path / "archive", Budget())
    assert caught.value.code == "broken_archive"
