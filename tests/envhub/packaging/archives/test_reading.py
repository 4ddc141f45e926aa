from __future__ import annotations

import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from envhub.errors import ArchiveError
from envhub.packaging.archives.reading import Budget, read_member, safe_members, unpack

from tests.factories.packages import make_pair, tar_bytes, zip_bytes


def _write(folder: Path, data: bytes) -> Path:
    path = folder / "archive"
    path.write_bytes(data)
    return path


def _code(path: Path, budget: Budget | None = None) -> str:
    with pytest.raises(ArchiveError) as caught:
        safe_members(path, budget or Budget())
    return caught.value.code


def test_an_ordinary_wheel_and_sdist_are_listed(tmp_path: Path) -> None:
    wheel, sdist = make_pair(tmp_path)
    assert "tiny_env.py" in {member.path for member in safe_members(wheel)}
    assert "tiny_env-0.1.0/tiny_env.py" in {member.path for member in safe_members(sdist)}


def test_unpack_writes_the_same_bytes_for_both_formats(tmp_path: Path) -> None:
    for index, data in enumerate((zip_bytes({"a/b.txt": b"x" * 3000}), tar_bytes({"a/b.txt": b"x" * 3000}))):
        target = tmp_path / str(index)
        unpack(_write(tmp_path, data), target)
        assert (target / "a/b.txt").read_bytes() == b"x" * 3000


def test_unpack_refuses_a_directory_with_content(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "mine").touch()
    with pytest.raises(ArchiveError, match="not empty"):
        unpack(_write(tmp_path, zip_bytes({"a": "b"})), tmp_path / "target")


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "./../evil", "/etc/passwd", "//a", "C:/evil", "a\\b", "bell\x07", "x" * 300],
)
@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
def test_names_that_could_leave_the_root_are_refused(tmp_path: Path, name: str, pack: object) -> None:
    assert _code(_write(tmp_path, pack({name: "x"}))) == "unsafe_path"  # type: ignore[operator]


@pytest.mark.parametrize("name", ["./a/b", "a//b", "a/./b", ".//a/b"])
@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
def test_harmless_spellings_of_a_path_are_that_path(tmp_path: Path, name: str, pack: object) -> None:
    path = _write(tmp_path, pack({name: "x"}))  # type: ignore[operator]
    assert [member.path for member in safe_members(path)] == ["a/b"]
    unpack(path, tmp_path / "target")
    assert (tmp_path / "target/a/b").read_text() == "x"


def test_the_root_itself_may_be_a_member(tmp_path: Path) -> None:
    root = tarfile.TarInfo("./")
    root.type = tarfile.DIRTYPE
    assert [member.path for member in safe_members(_write(tmp_path, tar_bytes({"./a": "x"}, extra=[root])))] == ["a"]


DECEIVING = ["\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u3164", "\u2028", "\x1b"]


@pytest.mark.parametrize("char", DECEIVING)
@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
def test_names_that_show_otherwise_than_they_are_are_refused_and_told_escaped(
    tmp_path: Path, char: str, pack: object
) -> None:
    path = _write(tmp_path, pack({f"gpj{char}exe.py": "x"}))  # type: ignore[operator]
    with pytest.raises(ArchiveError, match=rf"gpj\\u{ord(char):04x}exe") as caught:
        safe_members(path)
    assert char not in caught.value.message


def test_names_in_any_script_are_let_in(tmp_path: Path) -> None:
    names = ["\u6570\u636e/\u4f8b.txt", "donn\u00e9es/\u05e9\u05dc\u05d5\u05dd.txt", "\U0001f642.txt"]
    assert {m.path for m in safe_members(_write(tmp_path, tar_bytes(dict.fromkeys(names, "x"))))} == set(names)


def test_a_zip_name_cut_by_a_zero_byte_is_refused(tmp_path: Path) -> None:
    data = zip_bytes({"harmlessX.txt": "x"}).replace(b"harmlessX.txt", b"harmless\0.txt")
    assert _code(_write(tmp_path, data)) in {"unsafe_path", "broken_archive"}


@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
@pytest.mark.parametrize("names", [("a.py", "A.py"), ("a", "a/b"), ("Dir/x", "dir/y"), ("caf\u00e9", "cafe\u0301")])
def test_names_that_collide_on_some_file_system_are_refused(
    tmp_path: Path, names: tuple[str, str], pack: object
) -> None:
    assert _code(_write(tmp_path, pack(dict.fromkeys(names, "x")))) == "duplicate_path"  # type: ignore[operator]


@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
def test_the_same_name_twice_is_refused_unless_it_is_the_same_file(tmp_path: Path, pack: object) -> None:
    same, other = (pack({"one": "x", "./one": content, "z": ""}) for content in "xy")  # type: ignore[operator]
    assert [member.path for member in safe_members(_write(tmp_path, same))] == ["one", "z"]
    assert _code(_write(tmp_path, other)) == "duplicate_path"


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    assert _code(_write(tmp_path, zip_bytes({"link": "/etc/passwd"}, modes={"link": 0o120777}))) == "unsafe_member"


def _link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.mark.parametrize("target", ["b", "./sub/../b", "missing"])
def test_a_symbolic_link_inside_an_sdist_is_left_out(tmp_path: Path, target: str) -> None:
    path = _write(tmp_path, tar_bytes({"root/b": "x"}, extra=[_link("root/link", target)]))
    unpack(path, tmp_path / "target")
    assert [found.name for found in (tmp_path / "target/root").iterdir()] == ["b"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc", "..", "../other", "sub/../../../x"])
def test_a_symbolic_link_that_leaves_the_sdists_folder_is_refused(tmp_path: Path, target: str) -> None:
    assert _code(_write(tmp_path, tar_bytes({"root/b": "x"}, extra=[_link("root/link", target)]))) == "unsafe_member"


@pytest.mark.parametrize("later", ["root/link", "root/link/inner"])
def test_a_file_in_the_place_of_a_link_is_refused(tmp_path: Path, later: str) -> None:
    data = tar_bytes({}, extra=[_link("root/link", "b"), tarfile.TarInfo(later)])
    assert _code(_write(tmp_path, data)) == "duplicate_path"


def test_damage_inside_a_member_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "damaged.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a", "hello world")
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello"))
    with pytest.raises(ArchiveError) as caught:
        unpack(path, tmp_path / "target")
    assert caught.value.code == "broken_archive"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("special")
    info.type, info.linkname = kind, "/etc/passwd"
    assert _code(_write(tmp_path, tar_bytes({"a": "b"}, extra=[info]))) == "unsafe_member"


@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path, pack: object) -> None:
    assert _code(_write(tmp_path, pack({"zeros": bytes(32 * 1024 * 1024)}))) == "archive_bomb"  # type: ignore[operator]


@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
def test_budgets_for_bytes_and_files_hold(tmp_path: Path, pack: object) -> None:
    path = _write(tmp_path, pack({str(number): b"x" * 100 for number in range(20)}))  # type: ignore[operator]
    assert _code(path, Budget(max_files=10)) == "too_many_files"
    assert _code(path, Budget(max_unpacked=1000)) == "too_large"
    assert _code(path, Budget(max_packed=100)) == "too_large"


def test_how_large_a_push_may_be_is_said_by_its_hub(tmp_path: Path) -> None:
    path = tmp_path / "large.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive, archive.open("data.bin", "w") as sink:
        for _ in range(251):
            sink.write(bytes(1024**2))
    assert [member.path for member in safe_members(path)] == ["data.bin"]


def test_gzip_that_never_ends_stops_at_the_budget(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a")
    path = _write(tmp_path, tar_bytes({"a": bytes(60 * 1024 * 1024)}, extra=[info]))
    assert _code(path, Budget(max_unpacked=1000)) == "too_large"


def test_a_zip_that_hides_a_member_from_its_directory_is_refused(tmp_path: Path) -> None:
    first, second = zip_bytes({"hidden": "x"}), zip_bytes({"shown": "y"})
    local = first[: first.index(b"PK\x01\x02")]
    end = second.index(b"PK\x05\x06")
    moved = bytearray(second)
    struct.pack_into("<L", moved, end + 16, struct.unpack_from("<L", second, end + 16)[0] + len(local))
    directory = second.index(b"PK\x01\x02")
    struct.pack_into("<L", moved, directory + 42, len(local))
    assert _code(_write(tmp_path, local + bytes(moved))) == "hidden_data"


def test_a_zip_whose_local_name_differs_is_refused(tmp_path: Path) -> None:
    data = bytearray(zip_bytes({"inner.py": "x"}))
    at = data.index(b"inner.py")
    data[at : at + 8] = b"other.py"
    assert _code(_write(tmp_path, bytes(data))) == "broken_archive"


def test_trailing_data_and_comments_are_refused(tmp_path: Path) -> None:
    data = zip_bytes({"a": "x"})
    assert _code(_write(tmp_path, data + b"more")) == "hidden_data"
    assert _code(_write(tmp_path, data[:-2] + b"\x04\x00more")) == "hidden_data"


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04broken", b"\x1f\x8bbroken"])
def test_broken_files_are_named_as_such(tmp_path: Path, data: bytes) -> None:
    assert _code(_write(tmp_path, data)) in {"unknown_archive", "broken_archive", "hidden_data"}


def test_one_member_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = _write(tmp_path, tar_bytes({"a": "12345", "b": "67890"}))
    assert read_member(path, "b", limit=3) == b"678"
    with pytest.raises(ArchiveError, match="no file"):
        read_member(path, "c", limit=3)
