"""Test whether this host can lay a private writable layer (overlayfs on the box's tmpfs) over a directory, and show the
host's programs through views of the box's own.

The launcher makes the layers itself, because bubblewrap can do so only since 0.11. As root this needs id-mapped mounts
(Linux 5.19 and a file system that supports them), as a plain user overlayfs in user namespaces (5.11).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from .channel import sealed_file
from .identity import new_identity
from .options import system_folders

PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
LAUNCHER = [PYTHON, "-I", "-S", str(Path(__file__).with_name("launcher.py"))]
NO_LAYERS = "packages cannot write beside themselves: this host makes no writable layers"
NO_VIEWS = "boxes can watch and lock shared files that others use, because this host makes no views of them"
PROOF_SECONDS = 20.0
_known: dict[int, str] = {}  # device -> trouble
_shared: dict[int, list[str]] = {}  # device -> folders without a view


def trouble(source: Path) -> str:
    """Return why no layer can lie over `source`, or "" if one can. Takes 40 ms, once per file system and process."""
    try:
        device = source.stat().st_dev
    except OSError:
        return ""  # the launcher reports what is wrong with it
    if device not in _known:
        try:
            _known[device] = _try(source)
        except subprocess.TimeoutExpired:
            return "this host is too busy to tell"  # try again for the next box
    return _known[device]


def shared_folders(source: Path) -> list[str]:
    """Return those of `source` and the host's folders of programs that all boxes share for want of a view."""
    if trouble(source):
        return [str(source), *system_folders()]
    return _shared.get(source.stat().st_dev, [])


def _try(source: Path) -> str:
    identity = new_identity()
    orders: dict[str, object] = {
        "mode": identity.mode,
        "uid": identity.uid,
        "gid": identity.gid,
        "parent": os.getpid(),
        "cgroups": [],
    }
    orders |= {"root": None, "binds": [str(source)] * 2, "layers": [0], "disk_bytes": 1 << 20, "files": 100}
    orders |= {"views": [1], "system": system_folders(), "prove": True}
    config = sealed_file(json.dumps(orders).encode())
    try:
        done = subprocess.run(
            LAUNCHER, stdin=config, capture_output=True, env={}, timeout=PROOF_SECONDS, check=False, text=True
        )
    except OSError as error:
        return str(error)
    finally:
        os.close(config)
    if done.returncode:
        return done.stderr.strip()[-300:] or f"exit status {done.returncode}"
    _shared[source.stat().st_dev] = done.stdout.splitlines()
    return ""
