"""Private files: for one user, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from envhub.packaging.private_file import write_private


def test_only_this_user_reads_it_whatever_was_there_before(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_writer_wins_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content in (b"first", b"second"):
        write_private(path, content, replace=False)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
