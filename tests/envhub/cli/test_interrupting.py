"""Ctrl-C ends the watching, not the work."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from envhub.cli.terminal.progress import goes_on
from envhub.cli.terminal.session import Session
from envhub.errors import ConnectionFailed


@pytest.mark.parametrize("end", [KeyboardInterrupt(), ConnectionFailed("cannot reach the hub")], ids=repr)
def test_who_stops_watching_is_told_that_the_work_goes_on(
    end: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(end)), goes_on(Session(), "`hub eval cancel 7` ends it"):
        raise end
    assert "it goes on in the hub: `hub eval cancel 7` ends it" in capsys.readouterr().err


def test_ctrl_c_while_the_command_still_starts_prints_nothing() -> None:
    code = "import os, sys, envhub.cli as cli; cli.import_module = lambda name: os.kill(os.getpid(), 2); cli.hub()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")
