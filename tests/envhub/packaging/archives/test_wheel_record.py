"""RECORD is what installers trust: a wheel whose RECORD is missing or wrong is refused before it is published."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from envhub.errors import PackageError
from envhub.packaging.archives.wheel_record import check_record

from tests.factories.packages import zip_bytes

INFO = "thing-1.0.dist-info"
FILES = {
    "thing.py": "v = 1\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def hashed(text: str, algorithm: str = "sha256") -> str:
    digest = hashlib.new(algorithm, text.encode()).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def honest(path: str) -> str:
    return f"{path},{hashed(FILES[path])},{len(FILES[path])}"


def packed(folder: Path, record: str | bytes | None, spelling: str = "") -> Path:
    """A wheel with this RECORD; `spelling` goes before the names of its members."""
    members: dict[str, str | bytes] = {**FILES} if record is None else {**FILES, f"{INFO}/RECORD": record}
    wheel = folder / "thing-1.0-py3-none-any.whl"
    wheel.write_bytes(zip_bytes({spelling + path: text for path, text in members.items()}))
    return wheel


def lines(*first: str, without: str = "thing.py") -> str:
    """`first`, then honest lines of all files but `without`."""
    return "\n".join([*first, *(honest(path) for path in FILES if path != without), f"{INFO}/RECORD,,"])


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_an_honest_record_passes(tmp_path: Path, algorithm: str) -> None:
    check_record(packed(tmp_path, lines(f"thing.py,{hashed(FILES['thing.py'], algorithm)},6")))


def test_lines_without_a_hash_or_spelled_otherwise_pass_as_with_pip(tmp_path: Path) -> None:
    check_record(packed(tmp_path, "".join(f"./{path},,\n" for path in FILES)))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"thing.py,{hashed('other')},6", "thing.py has another hash"),
        (f"thing.py,{hashed(FILES['thing.py'])},7", "thing.py has another size"),
        (f"thing.py,{hashed(FILES['thing.py'], 'md5')},6", r"installers do not take \(md5\)"),
        (f"{honest('thing.py')}\nghost.py,{hashed('')},0", "ghost.py is listed, but not there"),
        ("", r"thing\.py is not listed"),
    ],
)
def test_a_record_that_lies_is_refused_with_the_file(tmp_path: Path, line: str, fault: str) -> None:
    with pytest.raises(PackageError, match=fault) as caught:
        check_record(packed(tmp_path, lines(line)))
    assert caught.value.code == "bad_record"


@pytest.mark.parametrize(
    ("record", "spelling"), [(None, ""), (b"\xff\xfe,,", ""), (lines(), "./")], ids=["missing", "no text", "dotted"]
)
def test_what_pip_refuses_is_refused_before(tmp_path: Path, record: str | bytes | None, spelling: str) -> None:
    wheel = packed(tmp_path, record, spelling)
    with pytest.raises(PackageError) as caught:
        check_record(wheel)
    assert caught.value.code == "bad_record"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(tmp_path / "t")]
    assert subprocess.run([*pip, str(wheel)], capture_output=True).returncode != 0
