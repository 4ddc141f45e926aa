"""[tool.uv] of a package's pyproject.toml, which its wheel does not tell: where its author's uv takes dependencies
from, and what it overrides. Read by locking; settings that lead to files of the author's machine are only named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envhub.errors import PackageError
from envhub.packaging.metadata import read_sdist_pyproject
from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from workers.builds.resolving.markers import applies
from workers.venvs.interpreters import Interpreter

_FIXED = re.compile(r"[0-9a-f]{7,40}")
PRERELEASE = ("allow", "disallow", "if-necessary", "explicit", "if-necessary-or-explicit")


@dataclass(frozen=True)
class UvSettings:
    """What decides how requirements resolve. `sources` are addresses as direct references have them, by project."""

    sources: Mapping[str, str] = field(default_factory=dict)
    local: frozenset[str] = frozenset()  # projects that are taken from a folder of the author's
    overrides: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    prerelease: str = ""

    def on_verifiers(self, requirements: Sequence[str]) -> tuple[str, ...]:
        """The requirements, with what the settings say of verifiers: the release is chosen by it."""
        told = [line for line in self.overrides if project(line) == "verifiers"]
        kept = [line for line in requirements if not told or project(line) != "verifiers"]
        return (*kept, *told, *(line for line in self.constraints if project(line) == "verifiers"))

    def sourced(self, line: str) -> str:
        """A requirement with its source's address; as it is when it has none, or has an address already."""
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            return line
        address = self.sources.get(canonicalize_name(requirement.name))
        if address is None or requirement.url is not None:
            return line
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        marker = f" ; {requirement.marker}" if requirement.marker else ""
        return f"{requirement.name}{extras} @ {address}{marker}"


def read_uv_settings(sdist: Path, interpreter: Interpreter) -> UvSettings:
    """Of an sdist that was inspected at its push, for this Python. Settings of other types than uv's are left out."""
    try:
        table = _table(read_sdist_pyproject(sdist), "tool", "uv")
    except PackageError:
        return UvSettings()
    sources = _table(table, "sources").items()
    chosen = {canonicalize_name(name): _applying(source, interpreter) for name, source in sources}
    addresses = {name: _address(name, source) for name, source in chosen.items()}
    mode = table.get("prerelease")
    return UvSettings(
        sources={name: address for name, address in addresses.items() if address},
        local=frozenset(name for name, source in chosen.items() if "path" in source or "workspace" in source),
        overrides=_lines(table.get("override-dependencies")),
        constraints=_lines(table.get("constraint-dependencies")),
        prerelease=mode if mode in PRERELEASE else "",
    )


def _applying(source: object, interpreter: Interpreter) -> Mapping[str, Any]:
    """Of several sources the first whose marker holds."""
    for one in source if isinstance(source, list) else [source]:
        if isinstance(one, dict) and not one.keys() & {"extra", "group"} and _holds(one.get("marker"), interpreter):
            return one
    return {}


def _holds(marker: object, interpreter: Interpreter) -> bool:
    try:
        return marker is None or applies(Marker(str(marker)), interpreter)
    except InvalidMarker:
        return False


def _address(name: str, source: Mapping[str, Any]) -> str:
    """As a requirement writes it: "git+https://host/repository@ref#subdirectory=folder"; "" when there is none."""
    if not isinstance(source.get("git"), str):
        return source["url"] if isinstance(source.get("url"), str) else ""
    told = {key: source[key] for key in ("rev", "tag", "branch", "subdirectory") if isinstance(source.get(key), str)}
    ref = told.get("rev") or told.get("tag") or told.get("branch", "")
    if name == "verifiers" and not ("tag" in told or _FIXED.fullmatch(ref)):
        return ""  # its author meant the branch of that day: the search for a release knows better
    folder = told.get("subdirectory", "").strip("/")
    repository = source["git"].removeprefix("git+").rstrip("/")
    return f"git+{repository}{f'@{ref}' if ref else ''}{f'#subdirectory={folder}' if folder else ''}"


def _table(value: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _lines(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def project(line: str) -> str:
    """The canonical name in a requirement line; "" of what is none."""
    try:
        return canonicalize_name(Requirement(line).name)
    except InvalidRequirement:
        return ""
