"""Fixtures of the registry's tests."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile

import pytest

from tests.factories.registry import Pair, build_pair


@pytest.fixture
def repacked() -> Pair:
    """The pair that `build_pair` makes, packed at another time, in another order, by another builder."""
    pair = build_pair()
    wheel = _repack_zip(pair.wheel)
    sdist = _repack_tar(pair.sdist)
    assert (wheel, sdist) != (pair.wheel, pair.sdist)
    return Pair(pair.name, pair.version, pair.wheel_filename, wheel, pair.sdist_filename, sdist)


def _repack_zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for item in reversed(old.infolist()):
            content = old.read(item)
            if item.filename.endswith("/WHEEL"):
                content = content.replace(b"Generator: tests", b"Generator: another 9.9")
            if item.filename.endswith("/RECORD"):
                content = b"".join(reversed(content.splitlines(keepends=True)))
            info = zipfile.ZipInfo(item.filename, date_time=(2024, 1, 1, 0, 0, 0))
            info.external_attr = item.external_attr
            new.writestr(info, content)
    return buffer.getvalue()


def _repack_tar(data: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=raw, mode="w") as new:
        for item in reversed(old.getmembers()):
            item.mtime = 1_700_000_000
            new.addfile(item, old.extractfile(item))
    return gzip.compress(raw.getvalue(), mtime=1)
