"""Constraint sets: which verifiers release each generation is resolved under (data: constraints.toml).

Used by generation.py at push (which set a package gets) and by builds (what `uv` is told). An unbounded
`verifiers>=X` would resolve to a release that cannot run the package; a set names the releases that can.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envhub.protocol.packages import Generation, GenerationEvidence


@dataclass(frozen=True)
class ConstraintSet:
    """One entry of constraints.toml."""

    name: str
    generation: Generation
    verifiers: SpecifierSet
    releases: tuple[str, ...]
    pins: tuple[str, ...]

    @property
    def default(self) -> str:
        """The release that a package without bounds of its own gets."""
        return self.releases[0]

    def allowed(self, wanted: SpecifierSet) -> list[str]:
        """The tested releases that a package's own requirement allows, best first."""
        return [release for release in self.releases if wanted.contains(release, prereleases=True)]


@cache
def load() -> dict[str, ConstraintSet]:
    """All sets by name, in the order in which they are tried."""
    text = resources.files(__package__).joinpath("constraints.toml").read_text(encoding="utf-8")
    return {
        name: ConstraintSet(
            name=name,
            generation=Generation(entry["generation"]),
            verifiers=SpecifierSet(entry["verifiers"], prereleases=True),
            releases=tuple(entry["releases"]),
            pins=tuple(entry["pins"]),
        )
        for name, entry in tomllib.loads(text)["sets"].items()
    }


def requirements_on(project: str, dependencies: Iterable[str]) -> Iterator[Requirement]:
    """The package's own requirements on a project, those for other interpreters left out."""
    wanted = canonicalize_name(project)
    for line in dependencies:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue  # refused at push; not our business here
        if canonicalize_name(requirement.name) != wanted:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def own_specifier(project: str, dependencies: Iterable[str]) -> SpecifierSet:
    """What a package asks of a project, all its lines joined ("" when it does not name it)."""
    combined = SpecifierSet()
    for requirement in requirements_on(project, dependencies):
        combined &= requirement.specifier
    return combined


def exact_pin(specifier: SpecifierSet) -> str | None:
    """The version of a `==1.2.3` (or `===`) pin; `==1.2.*` is a range."""
    for clause in specifier:
        if clause.operator in {"==", "==="} and not clause.version.endswith(".*"):
            return clause.version
    return None


def choose(generation: Generation, specifier: SpecifierSet, prefer: str | None = None) -> ConstraintSet:
    """The set under which a package of this generation is resolved.

    An exact pin decides by range; else the first set with a tested release that the package allows; else the
    generation's first set (whose conflict with the package's requirement the build then reports, or overrides).
    """
    sets = [entry for entry in load().values() if entry.generation is generation]
    sets.sort(key=lambda entry: entry.name != prefer)
    pin = exact_pin(specifier)
    if pin is not None:
        return next((entry for entry in sets if entry.verifiers.contains(pin, prereleases=True)), sets[0])
    return next((entry for entry in sets if entry.allowed(specifier)), _overlapping(sets, specifier) or sets[0])


def _overlapping(sets: Sequence[ConstraintSet], specifier: SpecifierSet) -> ConstraintSet | None:
    """The set whose range holds a version that the package's own clauses name (`>=0.1.11,<0.1.12`)."""
    for entry in sets:
        for clause in specifier:
            version = clause.version.removesuffix(".*")
            try:
                Version(version)
            except InvalidVersion:
                continue
            if specifier.contains(version, prereleases=True) and entry.verifiers.contains(version, prereleases=True):
                return entry
    return None


def fallbacks(evidence: GenerationEvidence, dependencies: Sequence[str]) -> list[str]:
    """Releases of verifiers to build with, in order: the next one when the package misses a verifiers name.

    Empty when the package names no verifiers; one entry for an exact pin; [""] when only the range can be given.
    """
    entry = load().get(evidence.constraint_set)
    if entry is None:
        return []
    wanted = own_specifier("verifiers", dependencies)
    pin = exact_pin(wanted)
    if pin is not None:
        return [pin]
    return entry.allowed(wanted) or ([entry.default] if _unreachable(entry, wanted) else [""])


def lines_for(evidence: GenerationEvidence, dependencies: Sequence[str], verifiers: str | None = None) -> list[str]:
    """The lines of uv's --constraint file. `verifiers`: one of `fallbacks(...)`; None means its first.

    An exact pin outside the supported range leaves both lines contradicting each other: uv then reports the conflict.
    """
    entry = load().get(evidence.constraint_set)
    if entry is None:
        return []
    chosen = verifiers if verifiers is not None else fallbacks(evidence, dependencies)[0]
    supported = bool(chosen) and entry.verifiers.contains(chosen, prereleases=True)
    first = f"verifiers=={chosen}" if supported else f"verifiers{entry.verifiers}"
    return [first, *(pin for pin in entry.pins if not _contradicted(pin, dependencies))]


def overrides_for(evidence: GenerationEvidence, dependencies: Sequence[str]) -> list[str]:
    """The lines of uv's --override file: empty unless the package's range holds no release with the API that it uses.

    (`verifiers>=0.1.15` with the classes of 0.1.15.dev11; `verifiers>=0.4` with v0 classes.) Never for an exact pin.
    """
    entry = load().get(evidence.constraint_set)
    wanted = own_specifier("verifiers", dependencies)
    if entry is None or not _unreachable(entry, wanted):
        return []
    extras = {extra for found in requirements_on("verifiers", dependencies) for extra in found.extras}
    suffix = f"[{','.join(sorted(extras))}]" if extras else ""
    return [f"verifiers{suffix}=={entry.default}"]


def _unreachable(entry: ConstraintSet, wanted: SpecifierSet) -> bool:
    """Whether a range without exact pin excludes all that the set supports."""
    if exact_pin(wanted) is not None or entry.allowed(wanted):
        return False
    return _overlapping([entry], wanted) is None


def _contradicted(pin: str, dependencies: Sequence[str]) -> bool:
    """Whether the package itself asks for a version that this pin forbids."""
    required = Requirement(pin)
    wanted = own_specifier(required.name, dependencies)
    version = exact_pin(required.specifier)
    if version is not None:
        return not wanted.contains(version, prereleases=True)
    own = exact_pin(wanted)
    lower = [clause.version for clause in wanted if clause.operator in {">=", ">", "~="}]
    named = [own] if own is not None else lower
    return any(not required.specifier.contains(version, prereleases=True) for version in named)
