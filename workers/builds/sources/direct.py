"""Builds a package's direct references (`name @ git+https://...`) into wheels; uv itself never fetches them.

Each is pinned (a moving ref to its commit at the first build), built into a wheel in a box without network, stored
at the hub under its pin, and shown to uv as the only version of its project.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from envhub.errors import PackageError
from envhub.packaging import references
from envhub.packaging.references import DirectReference
from envhub.protocol.registry.builds import BuildPayload, LockedWheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from workers.builds.errors import BuildFailed, HostsNeeded
from workers.builds.index.catalog import Direct
from workers.builds.resolving.markers import applies
from workers.builds.resolving.uv_settings import project
from workers.builds.sources.building import Material, Sources
from workers.builds.sources.claims import requires_dist
from workers.builds.sources.direct_files import download
from workers.builds.sources.git_repository import open_repository
from workers.venvs.interpreters import host_platform
from workers.venvs.wheel_checks import check_wheel

MOST = 30  # references of one package, including indirect ones
_FROM_TAGS = (
    "setuptools-scm",
    "setuptools_scm",
    "hatch-vcs",
    "vcs-versioning",
    "dynamic-versioning",
    "pbr",
    "pdm-backend",
)


@dataclass
class References:
    """The direct references of one build. `pins` come from an earlier build, since a version never changes."""

    sources: Sources
    hosts: Sequence[str]
    mirrors: dict[str, str]
    pins: dict[str, str]
    log: Callable[[str], None]
    found: dict[str, Direct] = field(default_factory=dict)  # by canonical name
    pinned: dict[str, str] = field(default_factory=dict)  # as written -> as pinned
    notes: list[str] = field(default_factory=list)  # wishes that could not be met
    missed: dict[str, HostsNeeded | BuildFailed] = field(default_factory=dict)  # the reasons, by canonical name

    async def fetch(self, requirements: Iterable[str]) -> None:
        """Fetch and build all references, and those that they name. Raises HostsNeeded, BuildFailed, RunFailed."""
        waiting, followed = self._references(requirements), set[tuple[str, frozenset[str]]]()
        while waiting:
            closed = [one for one in waiting if not self._is_open(one.host)]
            if closed:
                raise HostsNeeded(sorted({one.host for one in closed}), closed[0].line)
            following: list[DirectReference] = []
            for reference in waiting:
                if reference.name in self.found:
                    self._check_same(reference)
                elif len(self.found) == MOST:
                    raise BuildFailed("direct_reference", f"the package leads to more than {MOST} direct references")
                else:
                    self.found[reference.name] = await self._made(reference)
                asked = reference.name, _extras(reference.line)
                if asked not in followed:
                    followed.add(asked)
                    following += self._references(_requires(self.found[reference.name].metadata, *asked), asked[1])
            waiting = following

    async def has(self, wished: str) -> bool:
        """Fetch an optional reference; if it fails, `notes` and `missed` say why. Raises RunFailed."""
        before = dict(self.found), dict(self.pinned)
        try:
            await self.fetch([wished])
        except (HostsNeeded, BuildFailed) as error:
            self.found, self.pinned = before
            self.notes.append(f"not from where [tool.uv.sources] says: {error}")
            self.missed[canonicalize_name(Requirement(wished).name)] = error
            return False
        return True

    @property
    def closed(self) -> list[HostsNeeded]:
        """The failed wishes whose hosts are not allowed."""
        return [error for error in self.missed.values() if isinstance(error, HostsNeeded)]

    def behind(self, message: str) -> HostsNeeded | BuildFailed | None:
        """Return why a failed import's project was missed: the index's project of that name may be a different one."""
        modules = {name.replace("-", "_"): why for name, why in self.missed.items()}
        return next((modules[name] for name in re.findall(r"'(\w+)", message.lower()) if name in modules), None)

    def rewritten(self, requirements: Iterable[str]) -> tuple[str, ...]:
        """Replace every address in requirement lines by `==version`."""
        return tuple(self._rewritten(line) for line in requirements)

    def _rewritten(self, line: str) -> str:
        requirement = Requirement(line)
        if requirement.url is None:
            return line
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        marker = f"; {requirement.marker}" if requirement.marker else ""
        reference = references.read(line)
        assert reference is not None
        if reference.name not in self.found:  # its marker is for another Python
            return f"{requirement.name}{extras}{marker}"
        return f"{requirement.name}{extras}=={self.found[reference.name].wheel.version}{marker}"

    def _references(self, requirements: Iterable[str], extras: Set[str] = frozenset()) -> list[DirectReference]:
        """Return the references that apply to the build's Python and these extras."""
        try:
            found = references.find(requirements)
        except PackageError as error:
            raise BuildFailed(error.code, error.message, hint=error.hint) from error
        python = self.sources.catalog.interpreter
        markers = ((one, Requirement(one.line).marker) for one in found)
        return [one for one, marker in markers if any(applies(marker, python, extra) for extra in ("", *extras))]

    def _is_open(self, host: str) -> bool:
        return references.is_open(host, self.hosts)

    def _check_same(self, reference: DirectReference) -> None:
        known = self.found[reference.name].wheel.source
        if self.pinned.get(reference.line, reference.pinned(reference.ref)) != known:
            message = f"{reference.name} is asked for twice: as {known} and by {reference.line!r}"
            raise BuildFailed("dependency_conflict", message, hint="Use the same commit in all of them.")

    async def _made(self, reference: DirectReference) -> Direct:
        pinned = self.pins.get(reference.line) or (reference.pinned(reference.ref) if _says_it(reference) else "")
        kept = await self.sources.exchange.find(self._key(pinned)) if pinned else None
        if kept is None:
            pinned, kept = await self._fresh(reference, pinned)
        wheel, path = kept
        self.pinned[reference.line] = pinned
        checked = await asyncio.to_thread(check_wheel, path, wheel.filename)
        if checked.name != reference.name:
            message = f"the direct reference {reference.line[:300]!r} leads to another project, {checked.name}"
            raise BuildFailed("direct_reference", message)
        locked = wheel.model_copy(update={"source": pinned, "url": None})
        return Direct(locked, path, checked.metadata)

    async def _fresh(self, reference: DirectReference, pinned: str) -> tuple[str, tuple[LockedWheel, Path]]:
        self.log(f"fetching {reference.line}")
        if reference.kind == "file":
            return await self._from_file(reference)
        async with open_repository(reference, references.mirrored(reference.url, self.mirrors)) as repository:
            commit = pinned.rpartition("@")[2].partition("#")[0] or await repository.pin()
            pinned = reference.pinned(commit)
            archive = await repository.archive(commit)
            material = Material(archive, f"{reference.name} ({pinned})", reference.name, self._key(pinned))
            folder = material.subdirectory = reference.subdirectory
            material.pyproject = await repository.read(
                commit, f"{folder}/pyproject.toml" if folder else "pyproject.toml"
            )
            if any(tool in str(material.settings().get("requires")) for tool in _FROM_TAGS):
                material.version_of_tags = await repository.version(commit)
            return pinned, await self._shared(pinned, await self.sources.make(material))

    async def _from_file(self, reference: DirectReference) -> tuple[str, tuple[LockedWheel, Path]]:
        content, filename = await download(reference, references.mirrored(reference.url, self.mirrors), self._is_open)
        path, sha256 = self.sources.files.add(content)
        if reference.sha256 not in {"", sha256}:
            raise BuildFailed("direct_reference", f"{reference.url} has other bytes than {reference.line!r} promises")
        pinned = reference.pinned(sha256)
        if filename.endswith(".whl"):
            checked = await asyncio.to_thread(check_wheel, path, filename)
            version, size = checked.version, len(content)
            wheel = LockedWheel(name=checked.name, version=version, filename=filename, sha256=sha256, size=size)
            return pinned, await self._shared(pinned, (wheel, path))
        material = Material(path, f"{reference.name} ({pinned})", reference.name, self._key(pinned))
        material.is_zip = filename.endswith(".zip")
        return pinned, await self._shared(pinned, await self.sources.make(material))

    async def _shared(self, pinned: str, made: tuple[LockedWheel, Path]) -> tuple[LockedWheel, Path]:
        return await self.sources.exchange.share(self._key(pinned), *made)

    def _key(self, pinned: str) -> str:
        """Return the key under which the hub keeps the wheel; it is looked up before anything is fetched."""
        content = json.dumps(["direct", pinned, self.sources.catalog.interpreter.short, host_platform()])
        return hashlib.sha256(content.encode()).hexdigest()


def open_references(payload: BuildPayload, sources: Sources, log: Callable[[str], None]) -> References:
    """Make the references of one build, with the pins of the version's earlier builds."""
    pins = payload.previous.references if payload.previous is not None else {}
    return References(sources, payload.git_hosts, dict(payload.git_mirrors), dict(pins), log)


def _extras(line: str) -> frozenset[str]:
    return frozenset(str(canonicalize_name(extra)) for extra in Requirement(line).extras)


def _requires(metadata: str, name: str, extras: frozenset[str]) -> list[str]:
    """Return what a wheel requires with these extras, including extras made of others (`all = ["lib[rl]"]`).

    Invalid lines are left out: uv, which gets the metadata too, accepts old spellings like `numpy (>=1.16.*)`.
    """
    lines = [line for line in requires_dist(metadata, extras) if project(line)]
    own = [line for line in lines if project(line) == name]
    known = extras.union(*map(_extras, own))
    return lines if known == extras else _requires(metadata, name, known)


def _says_it(reference: DirectReference) -> bool:
    return reference.is_pinned and reference.kind == "git"
