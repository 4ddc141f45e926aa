"""Reads the pyproject.toml of a package directory before it is built: name and version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envhub.errors import PackageError, UsageError
from envhub.packaging.metadata import README_FILES, parse_pyproject
from envhub.protocol.visibility import Visibility

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


@dataclass(frozen=True)
class Project:
    """A directory with a [project] table."""

    directory: Path
    name: str  # normalised; also the environment's name
    version: str | None  # None when the build backend computes it
    pyproject: dict[str, Any]

    @property
    def readme(self) -> Path | None:
        """The README beside pyproject.toml that the hub would show, or None."""
        return next((path for name in README_FILES if (path := self.directory / name).is_file()), None)

    @property
    def hub_config(self) -> dict[str, Any]:
        """[tool.envhub]; {} if it is absent or not a table."""
        tool = self.pyproject.get("tool")
        found = tool.get("envhub") if isinstance(tool, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def prime_config(self) -> dict[str, Any]:
        """[tool.prime.environment], which packages made for another hub have; {} if it is absent or not a table."""
        found: object = self.pyproject.get("tool")
        for name in ("prime", "environment"):
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def read_project(directory: Path) -> Project:
    """Read the project in a directory. Raises PackageError if it has no usable pyproject.toml."""
    directory = directory.resolve()  # hatchling misreads relative roots
    path = directory / "pyproject.toml"
    if not path.is_file():
        hint = "Make one with `hub init NAME`, or give the directory of an environment package."
        raise PackageError(f"{directory} has no pyproject.toml", code="no_pyproject", hint=hint)
    pyproject = parse_pyproject(path.read_bytes())
    table = pyproject.get("project")
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(name, str):
        raise PackageError(f"{path} has no [project] name", code="no_name")
    slug = canonicalize_name(name)
    if not SLUG.fullmatch(slug):
        raise PackageError(
            f"{name!r} cannot be an environment's name", code="bad_name", hint="Use a-z, 0-9 and dashes."
        )
    version = table.get("version")
    if isinstance(version, str):
        _parsed(version)
    return Project(directory, slug, version if isinstance(version, str) else None, pyproject)


def stated_visibility(project: Project) -> Visibility | None:
    """Return what `[tool.envhub] visibility` says for a new environment, else `[tool.prime.environment] visibility`.

    Raises PackageError for an unknown value of the first.
    """
    stated = project.hub_config.get("visibility")
    if stated is None:
        other = str(project.prime_config.get("visibility", "")).lower()
        return Visibility(other) if other in set(Visibility) else None
    if stated not in set(Visibility):
        known = " or ".join(f'"{one}"' for one in Visibility)
        raise PackageError(f"[tool.envhub] visibility = {stated!r}", code="bad_visibility", hint=f"Write {known}.")
    return Visibility(stated)


def bump_version(project: Project, part: str) -> Project:
    """Write the next "patch", "minor" or "major" version into pyproject.toml. Raises UsageError when it is dynamic."""
    if project.version is None:
        raise UsageError(
            "--bump needs a literal version in [project]", hint="The version is dynamic: change its source."
        )
    path = project.directory / "pyproject.toml"
    document = tomlkit.parse(path.read_bytes())  # as bytes: reading as text would change the line endings
    version = next_version(project.version, part)
    document["project"]["version"] = version
    path.write_bytes(tomlkit.dumps(document).encode())
    return read_project(project.directory)


def next_version(version: str, part: str) -> str:
    """Return the next version: `1.2.3` -> `1.2.4`, `1.3.0` or `2.0.0`.

    The "patch" after a pre-release is the release that it precedes.
    """
    parsed = _parsed(version)
    major, minor, micro = parsed.major, parsed.minor, parsed.micro
    epoch = f"{parsed.epoch}!" if parsed.epoch else ""
    if part == "patch":
        return f"{epoch}{major}.{minor}.{micro if parsed.is_prerelease else micro + 1}"
    return f"{epoch}{major}.{minor + 1}.0" if part == "minor" else f"{epoch}{major + 1}.0.0"


def _parsed(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion as error:
        raise PackageError(f"{version!r} is not a version", code="bad_version", hint="Write one like 0.1.0.") from error
