"""Finds the package that a command means: a path, the name of one under ./environments, or one that is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from envhub.errors import UsageError
from envhub.packaging.entry_module import defining_modules, entry_module
from envhub.packaging.project import Project, read_project
from envhub.packaging.source_archives import named_below
from envhub.packaging.tree import SKIPPED, walk
from envhub.protocol.base import JsonObject

MOST_FOLDERS = 5000  # that are looked into
DEEPEST = 4  # folders below the one that was given, in which packages are looked for

# Prints the Python files of an installed distribution, or one that stands for a module which was not installed as such.
# The current directory is not looked at: a folder of that name would be taken for the module.
_INSTALLED = """
import importlib.metadata, importlib.util, json, pathlib, sys
sys.path.pop(0)
name = sys.argv[1]
module = name.replace("-", "_")
found = importlib.util.find_spec(module)
if found is not None and found.origin is not None:
    texts = {module + ".py": ""}
else:
    try:
        files = importlib.metadata.files(name) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    there = {str(path): path.locate() for path in files if path.suffix == ".py"}
    texts = {name: pathlib.Path(path).read_text(errors="replace") for name, path in there.items() if path.is_file()}
print(json.dumps(texts))
"""
_NO_MODULES = ("tests/", "test/", "docs/", "examples/", "scripts/", "setup.py", "conftest.py", "noxfile.py")


@dataclass(frozen=True)
class LocalPackage:
    """What can be loaded here: `directory` of a source tree, None for what the interpreter has installed.

    reference: the environment that it belongs to on the hub; module: the import name of its entry module; defaults:
    its [tool.verifiers.eval].
    """

    name: str
    reference: str
    module: str
    directory: Path | None = None
    defaults: JsonObject = field(default_factory=dict)

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
    return f"{named_below(packages)} Give one of them." if packages else ""


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
    if installed := _installed(slug, python):
        return LocalPackage(slug, f"{owner}/{slug}" if owner else slug, entry_module(slug, installed, installed, {}))
    hub_name = given if owner else f"OWNER/{name}"
    raise UsageError(
        f"no package directory is called {name!r}, and it is not installed for {python}",
        hint=f"`hub pull {hub_name}` fetches its source, `hub install {hub_name}` installs it, `hub init` makes one.",
    )


def _of_directory(directory: Path, owner: str) -> LocalPackage:
    project = read_project(directory)
    table = project.pyproject.get("tool", {}).get("verifiers", {}).get("eval", {})
    numbers = {key: table[key] for key in ("num_examples", "rollouts_per_example") if isinstance(table.get(key), int)}
    reference = f"{owner}/{project.name}" if owner else project.name
    return LocalPackage(project.name, reference, _module(project), directory, numbers)


def _module(project: Project) -> str:
    """The module that the hub would choose; the usual one, which may be installed, if none here defines an environment.

    Raises PackageError.
    """
    usual = project.hub_config.get("module") or project.name.replace("-", "_")
    sources = {path: text for path, text in _sources(project.directory).items() if not path.startswith(_NO_MODULES)}
    tops = {path.partition("/")[0] for path in sources}
    modules = {top for top in tops if top.endswith(".py") or top == usual or f"{top}/__init__.py" in sources}
    sources = {path: text for path, text in sources.items() if path.partition("/")[0] in modules}
    if not defining_modules(sources):
        return str(usual)
    return entry_module(project.name, sources, sources, project.pyproject)


def _sources(directory: Path) -> dict[str, str]:
    """The Python files of a folder by their paths, those below `src` as if they lay at the top."""
    files = [path for path in walk(directory) if path.suffix == ".py" and path.is_file()]
    names = (path.relative_to(directory).as_posix().removeprefix("src/") for path in files)
    return {name: path.read_text(errors="replace") for name, path in zip(names, files, strict=True)}


def _installed(name: str, python: str) -> dict[str, str]:
    """The Python files of an installed package; none if it is not installed."""
    done = subprocess.run([python, "-c", _INSTALLED, name], capture_output=True, text=True, check=False)
    found: dict[str, str] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def _directory(given: str) -> Path | None:
    return next((path for path in _candidates(given) if (path / "pyproject.toml").is_file()), None)


def _candidates(given: str) -> list[Path]:
    return [Path(given), *(Path("environments") / name for name in spellings(given) if "/" not in given)]


def spellings(name: str) -> list[str]:
    """`my-env` may lie in my-env or my_env."""
    return list(dict.fromkeys([name, name.replace("-", "_"), name.replace("_", "-")]))
