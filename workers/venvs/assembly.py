"""Puts wheel trees together as one frozen environment, by hard links: seconds of unpacking become tenths.

An environment may lie over another one, its base: then it links to the base's folders, a hundred instead of ten
thousand, and has files of its own trees only. Both must be seen side by side, in a box as on the host.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from workers.venvs.errors import BadWheel
from workers.venvs.interpreters import Interpreter
from workers.venvs.layout import BASE, OF_EACH
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


def assemble_over(base: Path, target: Path, trees: Sequence[Tree], interpreter: Interpreter) -> None:
    """As `assemble`, over the environment `base` beside `target`. What a tree has hides what the base has."""
    files = {name for tree in trees for name in tree.files}
    site = PurePosixPath(f"lib/python{interpreter.short}/site-packages")
    folders = {"bin", *map(str, (site, *site.parents)), *(name for tree in trees for name in tree.folders)}
    for folder in sorted(folders):
        (target / folder).mkdir(parents=True, exist_ok=True)
        if (base / folder).is_dir():
            _link_to_rest(base, target, folder, besides=folders | files)
    (target / BASE).symlink_to(f"../{base.name}")
    assemble(target, trees, interpreter)


def _link_to_rest(base: Path, target: Path, folder: str, *, besides: set[str]) -> None:
    """Links to what is in a folder of the base. Programs are linked hard: they look for what is beside them."""
    up = "../" * (len(PurePosixPath(folder).parts) + 1)
    for entry in os.scandir(base / folder):
        path = entry.name if folder == "." else f"{folder}/{entry.name}"
        if path in besides or path in OF_EACH:
            continue
        if folder != "bin":
            os.symlink(f"{up}{base.name}/{path}", target / path)
        elif not entry.is_symlink():  # the interpreter's names are
            _link(entry.path, f"{target}/{path}")


def base_of(environment: Path) -> Path | None:
    """The environment that this one lies over: whoever moves or binds the one takes the other along."""
    link = environment / BASE
    return environment.parent / link.readlink().name if link.is_symlink() else None


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
