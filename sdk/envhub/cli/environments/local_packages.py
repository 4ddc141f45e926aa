"""Finds the package that a command means: a path, the name of one under ./environments, or one that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from envhub.errors import UsageError
from envhub.packaging.project import SKIPPED, read_project
from envhub.protocol.base import JsonObject

MOST_NAMED = 8
MOST_FOLDERS = 5000  # that are looked into
DEEPEST = 4  # folders below the one that was given, in which packages are looked for

# The current directory is not looked at: a folder of that name would be taken for the module.
_IS_INSTALLED = """
import importlib.util, sys
sys.path.pop(0)
found = importlib.util.find_spec(sys.argv[1])
sys.exit(found is None or found.origin is None)
"""


@dataclass(frozen=True)
class LocalPackage:
    """What can be loaded here: `directory` of a source tree, None for what the interpreter has installed.

    reference: the environment that it belongs to on the hub; defaults: its [tool.verifiers.eval]; entry: the module
    that [tool.envhub] names.
    """

    name: str
    reference: str
    directory: Path | None = None
    defaults: JsonObject = field(default_factory=dict)
    entry: str = ""

    @property
    def module(self) -> str:
        """The import name of its entry module."""
        return self.entry or self.name.replace("-", "_")

    @property
    def paths(self) -> list[Path]:
        """Where that module is imported from, beside what is installed: `src` in packages laid out so."""
        if self.directory is None:
            return []
        sources = self.directory / "src"
        is_there = (sources / self.module).is_dir() or (sources / f"{self.module}.py").is_file()
        return [sources if is_there else self.directory]


def is_package(given: str) -> bool:
    """Whether `find_package` finds one."""
    return _directory(given) is not None


def find_package(given: str | None) -> Path:
    """A directory with a pyproject.toml. Raises UsageError that says where was looked."""
    if given is None:
        if Path("pyproject.toml").is_file():
            return Path.cwd()
        hint = one_of(packages_below(Path())) or "Give a path, or the name of a directory under ./environments."
        raise UsageError("no package found here", hint=hint)
    found = _directory(given)
    if found is None:
        looked = " or ".join(str(path) for path in _candidates(given))
        hint = one_of(packages_below(Path(given))) or "Make a package with `hub init NAME`."
        raise UsageError(f"no pyproject.toml in {looked}", hint=hint)
    return found


def packages_below(directory: Path) -> list[Path]:
    """Folders below this one that have a pyproject.toml: a repository often has several environments."""
    found: list[Path] = []
    for folder, folders, files in islice(os.walk(directory), MOST_FOLDERS):
        path = Path(folder)
        is_deepest = len(path.relative_to(directory).parts) == DEEPEST
        folders[:] = [] if is_deepest else sorted(name for name in folders if name not in SKIPPED and name[0] != ".")
        if path != directory and "pyproject.toml" in files:
            found.append(path)
    return found


def one_of(packages: Sequence[Path]) -> str:
    """A hint to give one of these; "" if there are none."""
    if not packages:
        return ""
    more = f" and {len(packages) - MOST_NAMED} more" if len(packages) > MOST_NAMED else ""
    return f"Packages below it: {', '.join(map(str, packages[:MOST_NAMED]))}{more}. Give one of them."


def find_local(target: str, python: str) -> LocalPackage:
    """A source tree, or what `hub install` has put into `python`. Raises UsageError."""
    if shutil.which(python) is None:
        raise UsageError(f"the interpreter {python} does not exist")
    given = target.partition("@")[0]
    owner, _, name = given.rpartition("/")
    if (directory := _directory(given)) is not None:
        return _of_directory(directory, "")
    if (directory := _directory(name)) is not None:
        return _of_directory(directory, owner)
    slug = name.lower().replace("_", "-")
    if _is_installed(slug, python):
        return LocalPackage(slug, f"{owner}/{slug}" if owner else slug)
    hub_name = given if owner else f"OWNER/{name}"
    raise UsageError(
        f"no package directory is called {name!r}, and it is not installed for {python}",
        hint=f"`hub pull {hub_name}` fetches its source, `hub install {hub_name}` installs it, `hub init` makes one.",
    )


def _of_directory(directory: Path, owner: str) -> LocalPackage:
    project = read_project(directory)
    table = project.pyproject.get("tool", {}).get("verifiers", {}).get("eval", {})
    numbers = {key: table[key] for key in ("num_examples", "rollouts_per_example") if isinstance(table.get(key), int)}
    entry = project.pyproject.get("tool", {}).get("envhub", {}).get("module")
    reference = f"{owner}/{project.name}" if owner else project.name
    return LocalPackage(project.name, reference, directory, numbers, entry if isinstance(entry, str) else "")


def _is_installed(name: str, python: str) -> bool:
    command = [python, "-c", _IS_INSTALLED, name.replace("-", "_")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _directory(given: str) -> Path | None:
    return next((path for path in _candidates(given) if (path / "pyproject.toml").is_file()), None)


def _candidates(given: str) -> list[Path]:
    return [Path(given), *(Path("environments") / name for name in spellings(given) if "/" not in given)]


def spellings(name: str) -> list[str]:
    """`my-env` may lie in my-env or my_env."""
    return list(dict.fromkeys([name, name.replace("-", "_"), name.replace("_", "-")]))
