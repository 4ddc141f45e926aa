"""The environment packages below a directory: projects that take something from verifiers, none inside another."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SKIPPED = {".git", ".venv", "node_modules", "__pycache__", "build", "dist"}
_USES = re.compile(r"^\s*(?:import|from)\s+verifiers\b", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """One project. `group` tells namesakes of several directories apart: each group has an owner of its own."""

    directory: Path
    name: str
    group: str


def find(root: Path) -> Iterator[Package]:
    """Every package below `root`, in order of its path."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        if "pyproject.toml" not in files:
            continue
        directory = Path(folder)
        name = _project_name(directory)
        if name and _is_environment(directory):
            folders.clear()
            yield Package(directory, name, root.name)


def _project_name(directory: Path) -> str:
    try:
        pyproject = tomllib.loads((directory / "pyproject.toml").read_text())
    except (OSError, ValueError):
        return ""
    project = pyproject.get("project", {})
    return str(project.get("name", "")) if "build-system" in pyproject else ""


def _is_environment(directory: Path) -> bool:
    return any(_USES.search(path.read_text(errors="replace")) for path in directory.rglob("*.py"))
