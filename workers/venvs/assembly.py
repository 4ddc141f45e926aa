"""Puts wheel trees together as one frozen environment, by hard links: seconds of unpacking become tenths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from workers.venvs.errors import BadWheel
from workers.venvs.interpreters import Interpreter
from workers.venvs.programs import interpreter_settings
from workers.venvs.wheel_trees import Tree


def assemble(target: Path, trees: Iterable[Tree], interpreter: Interpreter) -> None:
    """Link every tree into `target` and add the interpreter. Of two wheels with one file, the first one's stays."""
    site = f"lib/python{interpreter.short}/site-packages"
    made = {"."}
    for folder in ("bin", site):
        (target / folder).mkdir(parents=True, exist_ok=True)
    try:
        for tree in trees:
            for folder in tree.folders:
                if folder not in made:
                    (target / folder).mkdir(parents=True, exist_ok=True)
                    made.add(folder)
            for name in tree.files:
                _link(f"{tree.root}/{name}", f"{target}/{name}")
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise BadWheel(f"two wheels do not fit into one environment: {error.filename2 or error.filename}") from error
    (target / "lib64").symlink_to("lib")
    for name in ("python", "python3", f"python{interpreter.short}"):
        (target / "bin" / name).symlink_to(interpreter.executable)
    settings = interpreter_settings(str(interpreter.executable.parent), interpreter.full)
    (target / "pyvenv.cfg").write_text(settings)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        if os.path.isdir(target):
            raise
        # else namespace packages, which ship the same __init__.py several times
    except (NotADirectoryError, IsADirectoryError):
        raise
    except OSError:  # too many links, or a file system without them
        shutil.copy2(source, target)


def freeze(folder: Path) -> None:
    """Take the right to write from every directory (files are frozen when their tree is made).

    Only as root, whom modes do not hinder from deleting: others could not remove their own data by `rm -r`.
    """
    mode = 0o555 if os.geteuid() == 0 else 0o755
    for path, _, _ in os.walk(folder, topdown=False):
        os.chmod(path, mode)


def remove_tree(folder: Path) -> None:
    """Delete a frozen directory."""
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
