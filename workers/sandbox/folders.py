"""Short-lived folders whose names say who made them, so that a sweep knows which of them a killed process has left.

Most hold a box's unix sockets. The path of one has 107 bytes at most: so they lie below the sandbox's own directory
where that is short enough, else in the host's temporary one, beside those of other workers.
"""

import contextlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .owners import lives, pid_namespace, started_at

LONGEST_PATH = 107  # of a socket: sun_path without its last zero
LONGEST = "envhub-ffffffff-ffffff-fffffffff-ffff/gateway.sock"
NAME = re.compile(r"envhub-([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]+)-[0-9a-f]+")
_numbers = itertools.count()


@contextlib.contextmanager
def socket_folder(root: Path) -> Iterator[Path]:
    """A folder for the sockets of one box of the sandbox at `root`."""
    folder = make_folder(place_of(root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(parent: Path | None = None) -> Path:
    """An empty folder that all may read, since boxes and tools have uids of their own; None: a temporary one."""
    pid = os.getpid()
    name = f"envhub-{pid_namespace():x}-{pid:x}-{started_at(pid):x}-{next(_numbers):x}"
    folder = (parent or Path(tempfile.gettempdir())) / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    folder.chmod(0o755)
    return folder


def place_of(root: Path) -> Path:
    below = root.absolute() / "sockets"
    return below if len(os.fsencode(below / LONGEST)) <= LONGEST_PATH else Path(tempfile.gettempdir())


def sweep_folders(root: Path) -> list[str]:
    """Remove those whose makers are dead; gives their names.

    What was made in another pid namespace is left alone: its pids mean nothing here.
    """
    swept = []
    for place in {place_of(root), Path(tempfile.gettempdir())}:
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(place):
                made = NAME.fullmatch(entry.name)
                if made is not None and entry.is_dir(follow_symlinks=False) and is_left(made):
                    shutil.rmtree(entry.path, ignore_errors=True)
                    swept.append(entry.name)
    return swept


def is_left(made: "re.Match[str]") -> bool:
    namespace, pid, start = (int(number, 16) for number in made.groups())
    return namespace == pid_namespace() and not lives(pid, start)
