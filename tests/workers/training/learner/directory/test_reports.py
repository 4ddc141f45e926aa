"""Reading what the learner reports while it reports."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from workers.training.learner.directory.reports import newest_lines


@pytest.mark.parametrize("block", [1, 3, 4, 7, 100])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"unfinish", []),
        (b"one\n", [b"one"]),
        (b"one\ntwo\nthree\n", [b"three", b"two", b"one"]),
        (b"one\ntwo\nunfinish", [b"two", b"one"]),
    ],
)
def test_whole_lines_come_from_the_end(tmp_path: Path, block: int, content: bytes, lines: list[bytes]) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    assert list(newest_lines(path, block)) == lines


def test_the_last_line_of_a_long_file_costs_one_block(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole
        file.seek(0, 2)
        file.write(b"\nlast\n")
    assert list(islice(newest_lines(path), 1)) == [b"last"]
