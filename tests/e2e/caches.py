"""What tests keep from run to run, in TEST_CACHE, by default in the user's cache directory.

What a worker can keep (virtual environments, wheels, uv's cache), and an empty database with all migrations, which are
ten seconds of work for each hub. Hubs that begin without it: the demo's, those on Postgres, those of earlier trees.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "hub.sqlite3"


def cache_root() -> Path:
    """The directory."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "envhub-test-worker"
    root = Path(os.environ.get("TEST_CACHE", default)).absolute()
    root.mkdir(parents=True, exist_ok=True)
    return root


@contextmanager
def worker_cache() -> Iterator[Path]:
    """A WORKER_DATA that lasts from run to run, and is nobody else's for now; its environments are shared by all."""
    root = cache_root()
    for number in count():
        with (root / f"{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            own = root / str(number)
            own.mkdir(exist_ok=True)
            for name in ("venvs", "images"):  # which are safe to share, and slow to make
                if not (own / name).exists():
                    (root / name).mkdir(exist_ok=True)
                    (own / name).symlink_to(root / name)
            yield own
            return


def copy_empty_database(data: Path) -> None:
    """To where a hub with HUB_DATA=`data` looks for it, unless it has one."""
    if (data / NAME).exists():
        return
    folder = cache_root() / "empty-databases"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{state()}.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            make(made)
    shutil.copyfile(made, data / NAME)


def state() -> str:
    """A digest of all migrations: the hub's own, and what the lock pins."""
    digest = sha256((ROOT / "requirements.lock").read_bytes())
    for path in sorted(ROOT.glob("hub/*/migrations/*.py")):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def make(target: Path) -> None:
    """By `manage.py migrate`. Raises CalledProcessError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
    with tempfile.TemporaryDirectory(dir=target.parent) as data:
        command = [sys.executable, "manage.py", "migrate", "--no-input", "-v0"]
        subprocess.run(command, cwd=ROOT, env={**kept, "HUB_DATA": data}, check=True)
        with closing(sqlite3.connect(Path(data) / NAME)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (Path(data) / NAME).rename(target)
