"""What is longer than the terminal goes through the pager: on a real terminal of 24 lines, with the real command."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

import pytest
from envhub.cli.terminal.conversation import print_rollout
from envhub.cli.terminal.session import Session

from tests.factories.evals import make_record

PROGRAM = """
import sys
from envhub.cli.terminal.session import Session
session = Session(environ={environ!r}, pager={pager!r})
session.show([], lambda: session.table(("name", "n"), [(f"row-{{i}}", i) for i in range({rows})]))
"""


def on_terminal(tmp_path: Path, *, rows: int, pager: bool = True, **environ: str) -> str:
    """What a terminal shows of a table."""
    program = PROGRAM.format(environ=environ, pager=pager, rows=rows)
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(COLUMNS="80", LINES="24", TERM="xterm")
        os.execv(sys.executable, [sys.executable, "-c", program])
    shown, until = b"", time.monotonic() + 30
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 1)
        try:
            part = os.read(terminal, 65536) if ready else b"\0"
        except OSError:  # the end of a terminal
            break
        if not part:
            break
        shown += part.strip(b"\0")
    os.waitpid(child, 0)
    return shown.decode()


@pytest.mark.parametrize(("rows", "pager", "paged"), [(60, True, True), (5, True, False), (60, False, False)])
def test_only_what_is_longer_than_the_terminal_is_paged(tmp_path: Path, rows: int, pager: bool, paged: bool) -> None:
    command = f"{sys.executable} -c \"import sys; print('PAGED', len(sys.stdin.readlines()))\""
    shown = on_terminal(tmp_path, rows=rows, pager=pager, PAGER=command, TERM="xterm")
    assert ("PAGED 61" in shown) == paged
    assert ("row-4" in shown) != paged


def test_without_the_pager_that_is_named_everything_is_printed(tmp_path: Path) -> None:
    assert "row-59" in on_terminal(tmp_path, rows=60, PAGER="no-such-pager", TERM="xterm")


def test_a_transcript_in_a_pipe_is_as_it_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(environ={})
    record = make_record(completion=[{"role": "assistant", "content": "a\x1b[31mred"}])
    session.show(record, lambda: print_rollout(session, record))
    assert "a\x1b[31mred" in capsys.readouterr().out
