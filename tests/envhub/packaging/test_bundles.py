"""The file of a bundle is believed in nothing: whatever is not as its manifest says is refused, with no byte used."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from envhub.errors import ArchiveError
from envhub.packaging.bundles import open_bundle, read_manifest, whole_file, write_bundle
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.bundles import BundleBlob, BundledVersion, BundleManifest, BundleSignature
from envhub.protocol.registry.packages import PushFile
from envhub.protocol.visibility import Visibility

SIGNATURE = BundleSignature(key=f"ed25519:{'A' * 43}", signature="A" * 86)
CONTENTS = (b"a wheel", b"an sdist" * 100)


def blob_of(data: bytes) -> BundleBlob:
    return BundleBlob(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


def manifest_of(*contents: bytes) -> BundleManifest:
    wheel, sdist = (PushFile(filename=name, **blob_of(b"").model_dump()) for name in ("w.whl", "s.tar.gz"))
    lock = EnvironmentLock(python="3.11", platform="linux_x86_64", verifiers="", wheels=())
    names = {"owner": "alice", "name": "tiny-env", "version": "0.1.0", "visibility": Visibility.PUBLIC}
    version = BundledVersion(**names, wheel=wheel, sdist=sdist, lock=lock, lock_sha256="0" * 64)
    return BundleManifest(
        format=1,
        created_at=datetime(2026, 11, 25, tzinfo=UTC),
        hub="https://hub.example.org",
        release="0.1.0",
        exported_by="alice",
        version=version,
        blobs=tuple(map(blob_of, contents)),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A good bundle."""
    target = tmp_path / "good.bundle"
    with whole_file(target) as sink:
        contents = ((blob_of(data), [data]) for data in CONTENTS)
        write_bundle(sink, manifest_of(*CONTENTS).model_dump_json(), SIGNATURE, contents)
    return target


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Made by the standard library."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def head(*, names: tuple[bytes, ...] = CONTENTS) -> list[tuple[tarfile.TarInfo, bytes]]:
    """The first two members of a bundle of these."""
    manifest = manifest_of(*names).model_dump_json().encode()
    signature = SIGNATURE.model_dump_json().encode()
    return [(tarfile.TarInfo("manifest.json"), manifest), (tarfile.TarInfo("signature.json"), signature)]


def member(data: bytes, name: str = "", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name or f"blobs/{blob_of(data).sha256}")
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def code_of(data: bytes, folder: Path) -> str:
    target = folder / "hostile.bundle"
    target.write_bytes(data)
    with pytest.raises(ArchiveError) as refused:
        open_bundle(target)
    return refused.value.code


def test_what_was_written_is_read_again(path: Path) -> None:
    bundle = open_bundle(path)
    assert [b"".join(bundle.chunks(blob)) for blob in bundle.manifest.blobs] == list(CONTENTS)
    assert [sum(bundle.verify(blob)) for blob in bundle.manifest.blobs] == [len(data) for data in CONTENTS]


def test_any_tar_program_reads_it(path: Path) -> None:
    with tarfile.open(path) as archive:
        names = ["manifest.json", "signature.json", *(f"blobs/{blob_of(data).sha256}" for data in CONTENTS)]
        assert archive.getnames() == names


def test_one_that_the_standard_library_wrote_is_read(tmp_path: Path) -> None:
    target = tmp_path / "b"
    target.write_bytes(tar_of(*head(), *map(member, CONTENTS)))
    assert len(open_bundle(target).offsets) == 2


FIRST, SECOND = map(member, CONTENTS)
LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
UNSIGNED = member(b"{}", "signature.json")
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a link in the place of a blob": (
        lambda: tar_of(*head(), member(CONTENTS[0], FIRST[0].name, **LINK), SECOND),
        "bad_bundle",
    ),
    "a path that leads out": (lambda: tar_of(*head(), member(CONTENTS[0], "../../evil"), SECOND), "bad_bundle"),
    "members in another order": (lambda: tar_of(*head(), SECOND, FIRST), "bad_bundle"),
    "a member more": (lambda: tar_of(*head(), FIRST, SECOND, member(b"more")), "bad_bundle"),
    "a member fewer": (lambda: tar_of(*head(), FIRST), "bad_bundle"),
    "a blob twice": (lambda: tar_of(*head(names=(b"x", b"x")), member(b"x"), member(b"x")), "bad_bundle"),
    "another size": (lambda: tar_of(*head(), member(b"other", FIRST[0].name), SECOND), "bad_bundle"),
    "a manifest of a gigabyte": (lambda: huge_manifest(), "too_large"),
    "a negative size": (lambda: negative_size(), "too_large"),
    "no manifest at first": (lambda: tar_of(FIRST, *head()), "bad_bundle"),
    "no signature": (lambda: tar_of(head()[0], FIRST, SECOND), "bad_bundle"),
    "a signature that is none": (lambda: tar_of(head()[0], UNSIGNED, FIRST, SECOND), "bundle_unsigned"),
    "a manifest that is no JSON": (lambda: tar_of(member(b"\xff{", "manifest.json")), "bad_bundle"),
    "brackets a million deep": (lambda: tar_of(member(b"[" * 1_000_000, "manifest.json")), "bad_bundle"),
    "something else than a tar": (lambda: b"PK\x03\x04" + bytes(2000), "bad_bundle"),
    "nothing": (lambda: b"", "bundle_truncated"),
}


def huge_manifest() -> bytes:
    info = tarfile.TarInfo("manifest.json")
    info.size = 1024**3
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


def negative_size() -> bytes:
    """GNU's binary form of numbers has a sign."""
    info = tarfile.TarInfo("manifest.json")
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = tarfile.itn(-5, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(1024)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_bundle_is_refused(name: str, tmp_path: Path) -> None:
    make, code = HOSTILE[name]
    assert code_of(make(), tmp_path) == code


@pytest.mark.parametrize("left", [600, 3000, 4000, 5000])
def test_a_bundle_that_was_cut_off_is_refused(left: int, path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    assert left < len(data) - 1024
    assert code_of(data[:left], tmp_path) in {"bundle_truncated", "bad_bundle"}


def test_what_follows_its_end_is_refused(path: Path, tmp_path: Path) -> None:
    assert code_of(path.read_bytes() + b"more", tmp_path) == "bad_bundle"


def test_a_newer_format_says_which_to_upgrade() -> None:
    with pytest.raises(ArchiveError, match="format 2; this release reads 1") as refused:
        read_manifest('{"format": 2, "anything": "else"}')
    assert refused.value.code == "bundle_too_new"


def test_a_field_that_a_newer_release_has_added_is_passed_over() -> None:
    told = manifest_of().model_dump_json()
    assert read_manifest(told[:-1] + ', "mood": "fine"}') == manifest_of()


def test_nothing_appears_when_a_download_differs_from_its_hash(tmp_path: Path) -> None:
    target = tmp_path / "b"
    manifest = manifest_of(b"a wheel").model_dump_json()
    with pytest.raises(ArchiveError, match="have changed"), whole_file(target) as sink:
        write_bundle(sink, manifest, SIGNATURE, [(blob_of(b"a wheel"), [b"a whole"])])
    assert list(tmp_path.iterdir()) == []
