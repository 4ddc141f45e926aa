"""Reads a push's two archives statically, within limits, and refuses what must not be published.

Called by services.pushes with the uploaded files. It executes no code of the package and trusts no claim of the
request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envhub.errors import ArchiveError, PackageError
from envhub.packaging import metadata as package_metadata
from envhub.packaging import references
from envhub.packaging.archives.reading import Member, read_member, read_members, safe_members
from envhub.packaging.archives.wheel_dangers import DANGER_HINT, wheel_dangers
from envhub.packaging.archives.wheel_record import check_record
from envhub.packaging.contents import content_digest
from envhub.packaging.entry_module import entry_module
from envhub.packaging.generation import classify
from envhub.packaging.metadata import README_FILES, PackageMetadata
from envhub.packaging.secret_files import secret_files
from envhub.protocol.json_values import checked_settings
from envhub.protocol.registry.packages import GenerationEvidence
from packaging.version import Version as Pep440

from hub.core.errors import Invalid, TooLarge
from hub.registry.changelog import CHANGELOG_FILES, section_of
from hub.registry.tool_programs import tool_programs

SOURCES_LIMIT = 4 * 1024 * 1024  # characters of Python that are classified
SOURCE_LIMIT = 512 * 1024  # per file
TEXT_LIMIT = 512 * 1024  # of a README or a changelog
LONGEST_VERSION = 64  # characters


@dataclass(frozen=True)
class Archives:
    """The files of a push and the names under which they were pushed."""

    wheel: Path
    wheel_filename: str
    sdist: Path
    sdist_filename: str


@dataclass(frozen=True)
class Package:
    """Everything that a version keeps of its archives."""

    metadata: PackageMetadata
    version: str  # normalised as in PEP 440
    module: str
    readme: str
    changes: str  # the version's section of the changelog
    tags: tuple[str, ...]
    files: tuple[tuple[str, int], ...]
    eval_config: dict[str, Any]
    hub_config: dict[str, Any]
    programs: tuple[str, ...]
    evidence: GenerationEvidence
    content_digest: str


def inspect(archives: Archives) -> Package:
    """Read a push. Raises Invalid (codes of envhub.packaging, `direct_reference`, `secret_files`, ...), TooLarge."""
    try:
        return _inspect(archives)
    except PackageError as error:
        kind = TooLarge if error.code == "too_large" else Invalid
        raise kind(error.message, code=error.code, hint=error.hint) from error
    except (ValueError, RecursionError) as error:  # a TOML number of a million digits, a million nested brackets
        raise Invalid("the package's metadata cannot be read", code="bad_metadata") from error


def _inspect(archives: Archives) -> Package:
    wheel_members = safe_members(archives.wheel)
    sdist_members = safe_members(archives.sdist)
    _refuse_secrets([*wheel_members, *sdist_members])
    _refuse_dangers(archives.wheel)
    check_record(archives.wheel)
    found = package_metadata.read_wheel_metadata(archives.wheel, archives.wheel_filename)
    package_metadata.check_pair(found, archives.sdist, archives.sdist_filename)
    pyproject = package_metadata.read_sdist_pyproject(archives.sdist)
    _check_direct_references(found, pyproject)
    hub_config = _table(pyproject, "tool", "envhub")
    sources = _read_sources(archives.wheel)
    if len(found.version) > LONGEST_VERSION:
        raise Invalid(f"a version may have at most {LONGEST_VERSION} characters", code="bad_metadata")
    root = package_metadata.sdist_root(archives.sdist)
    if f"{root}.tar.gz" != archives.sdist_filename:
        raise Invalid(f"{archives.sdist_filename} must contain exactly one folder with its own name", code="bad_sdist")
    return Package(
        metadata=found,
        version=str(Pep440(found.version)),
        module=entry_module(found.name, (member.path for member in wheel_members), sources, pyproject),
        readme=found.readme or _read_first(README_FILES, archives.sdist, root, sdist_members),
        changes=section_of(_read_first(CHANGELOG_FILES, archives.sdist, root, sdist_members), found.version),
        tags=_tags(found, pyproject, hub_config),
        files=tuple((member.path.removeprefix(f"{root}/"), member.size) for member in sdist_members),
        eval_config=_table(pyproject, "tool", "verifiers", "eval"),
        hub_config=hub_config,
        programs=tool_programs(sources, hub_config),
        evidence=classify(sources, found.dependencies, hub_config),
        content_digest=content_digest(archives.wheel, archives.sdist),
    )


def _refuse_secrets(members: list[Member]) -> None:
    names = secret_files({member.path for member in members})
    if names:
        raise Invalid(
            f"the package contains files that look like secrets: {', '.join(names[:10])}",
            code="secret_files",
            hint="remove them, and revoke the secrets if they were ever published",
            fields=dict.fromkeys(names[:50], "looks like a secret"),
        )


def _refuse_dangers(wheel: Path) -> None:
    reasons = wheel_dangers(wheel).refused
    if reasons:
        message = f"the wheel would change the installation: {'; '.join(reasons[:5])}"
        raise Invalid(message, code="dangerous_wheel", hint=DANGER_HINT)


def _check_direct_references(found: PackageMetadata, pyproject: Mapping[str, Any]) -> None:
    """Check direct references: builds fetch those of dependencies, but build requirements must come from the index."""
    project = _table(pyproject, "project")
    declared = [project.get("dependencies"), *_table(project, "optional-dependencies").values()]
    references.find([*found.requires_dist, *_lines(declared)])
    references.refuse_credentials(_lines(_table(pyproject, "dependency-groups").values()))
    needed = sorted(set(package_metadata.direct_references(package_metadata.build_requirements(dict(pyproject)))))
    if needed:
        raise Invalid(
            f"direct references are not allowed in [build-system] requires: {', '.join(needed[:5])}",
            code="direct_reference",
            hint="use a released version",
            fields=dict.fromkeys(needed[:20], "direct reference"),
        )


def _lines(lists: Iterable[object]) -> list[str]:
    """Return the requirements in lists that only pyproject.toml has: a rebuild of the sdist would use them."""
    return [item for group in lists if isinstance(group, list) for item in group if isinstance(item, str)]


def _read_sources(wheel: Path) -> dict[str, str]:
    """Return path -> text of the wheel's Python files, up to SOURCES_LIMIT bytes in total."""
    left = SOURCES_LIMIT

    def wanted(member: Member) -> bool:
        nonlocal left
        if not member.path.endswith(".py") or member.size > left:
            return False
        left -= member.size
        return True

    raw = read_members(wheel, wanted, limit=SOURCE_LIMIT)
    return {path: data.decode(errors="replace") for path, data in raw.items()}


def _read_first(names: Sequence[str], sdist: Path, root: str, members: list[Member]) -> str:
    """Return the text of the first of these files that exists; "" if it is too large."""
    paths = {member.path for member in members}
    for name in names:
        if f"{root}/{name}" in paths:
            try:
                return read_member(sdist, f"{root}/{name}", limit=TEXT_LIMIT).decode(errors="replace").strip()
            except ArchiveError:
                return ""
    return ""


def _tags(found: PackageMetadata, pyproject: Mapping[str, Any], hub_config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return [tool.envhub] tags, else [project] tags (as older tools write them), else the keywords."""
    for given in (hub_config.get("tags"), _table(pyproject, "project").get("tags")):
        if isinstance(given, list):
            return _clean_tags([item for item in given if isinstance(item, str)])
    return _clean_tags(list(found.keywords))


def _clean_tags(words: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip().lower()[:40] for word in words if word.strip()))[:20]


def _table(source: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return a nested TOML table as JSON (dates become text); {} if it is absent or not a table.

    Raises Invalid if a table in [tool.*], which is stored, is too large or too deep.
    """
    found: Any = source
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    text = json.dumps(found, default=str, allow_nan=False)
    table: dict[str, Any] = json.loads(text)
    if path[0] == "tool":
        try:
            checked_settings(table)
        except ValueError as error:
            raise Invalid(f"[{'.'.join(path)}] {error}", code="table_refused") from error
    return table
