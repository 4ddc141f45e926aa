"""What is longer than the terminal goes through the reader's pager: $PAGER, else `less -FRX`, else as it is.

`PAGER=cat` and `hub --no-pager` turn it off. Nothing is paged off a terminal.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

LESS = "-FRX"  # leave at once what fits, show colours, leave the text on the screen


class Held(io.StringIO):
    """What a command prints, held back until its length is known. It passes for the terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """So that colours and widths are those of the terminal."""
        return True


def is_paged(environ: Mapping[str, str]) -> bool:
    """Whether the output goes to somebody who can page."""
    return sys.stdout.isatty() and sys.stdin.isatty() and environ.get("TERM") != "dumb"


def print_paged(text: str, environ: Mapping[str, str]) -> None:
    """Through the pager if it is longer than the terminal; a pager that is not there is done without."""
    command = _pager(environ)
    if not command or text.count("\n") < shutil.get_terminal_size().lines:
        _write(text)
        return
    settings = {**os.environ, **environ}
    settings.setdefault("LESS", LESS)
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=settings)
    except OSError:
        _write(text)
        return
    try:
        pager.communicate(text.encode(errors="replace"))
    except BrokenPipeError:  # the reader has seen enough
        pass
    except KeyboardInterrupt:  # meant for the pager, which goes on
        pager.wait()


def _pager(environ: Mapping[str, str]) -> list[str]:
    if "PAGER" in environ:
        try:
            return shlex.split(environ["PAGER"])
        except ValueError:
            return []
    return ["less"] if shutil.which("less") else []


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
