"""What is in the documentation, in the order of its list. Each file is kept where its subject is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Entry:
    """A document: its address /docs/SLUG, and its file below the project's root."""

    slug: str
    file: str


@dataclass(frozen=True)
class Chapter:
    """Documents under one headline."""

    title: str
    entries: tuple[Entry, ...]


def _own(*slugs: str) -> tuple[Entry, ...]:
    return tuple(Entry(slug, f"frontend/docs/{slug}.md") for slug in slugs)


CONTENTS = (
    Chapter("Begin", _own("first-environment", "first-evaluation", "first-training", "sandboxes", "migrating")),
    Chapter("Understand", (*_own("concepts", "numbers", "teams"), Entry("security", "SECURITY.md"))),
    Chapter("Look up", (*_own("commands"), Entry("toml", "sdk/toml.md"), *_own("errors", "rest"))),
    Chapter(
        "Operate",
        (
            *_own("self-hosting"),
            Entry("production", "infra/production.md"),
            Entry("kubernetes", "infra/kubernetes.md"),
            Entry("settings", "infra/settings.md"),
            Entry("runbook", "infra/runbook.md"),
            Entry("scale", "infra/scale.md"),
        ),
    ),
)
ENTRIES = {entry.slug: entry for chapter in CONTENTS for entry in chapter.entries}
_BY_FILE = {entry.file: entry for entry in ENTRIES.values()}


def linked(entry: Entry, target: str) -> str | None:
    """The address here of what `target`, a relative link in the document's file, leads to; None: not in here."""
    name, _, anchor = target.partition("#")
    parts: list[str] = []
    for part in (PurePosixPath(entry.file).parent / name).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    other = _BY_FILE.get("/".join(parts)) if name else entry
    if other is None:
        return None
    return f"/docs/{other.slug}#{anchor}" if anchor else f"/docs/{other.slug}"
