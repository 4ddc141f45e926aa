"""The lines of the log as its page shows them: ids as names, with links to what is still there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.urls import reverse

from hub.accounts.addresses import address_of
from hub.accounts.models import Owner, User
from hub.accounts.named import Named, Reference, addresses_by_name, named_by_id
from hub.audit.models import AuditEntry
from hub.runs.queries import visible_runs

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REFERENCE = re.compile(r"([\w.-]+)/([\w.-]+?)(?:@(\S+))?")
_ABOUT_PEOPLE = ("team", "member", "user", "quota", "invitation")


@dataclass(frozen=True)
class Part:
    """A word of what a write was on. url: of its page, "" if it has none or is gone; title: as it is in the log."""

    text: str
    url: str = ""
    title: str = ""


@dataclass(frozen=True)
class Line:
    """An entry with the addresses of its user and owner, "" where they are gone."""

    entry: AuditEntry
    actor_url: str
    owner_url: str
    subject: tuple[Part, ...]


def lines_of(user: User, entries: Sequence[AuditEntry]) -> list[Line]:
    """Return a page of the log; the number of queries does not depend on how many entries there are."""
    ids = {UUID(one) for entry in entries for one in _ID.findall(entry.subject)}
    told = {(entry.action, reference) for entry in entries for reference in _references(entry)}
    named = _runs(user, ids) | named_by_id(user, ids)
    addresses = addresses_by_name(user, told)
    people = _people(entries)
    return [
        Line(
            entry,
            people.get(entry.actor, ""),
            people.get(entry.owner_slug, ""),
            tuple(_part(word, entry.action, named, addresses, people) for word in entry.subject.split()),
        )
        for entry in entries
    ]


def _references(entry: AuditEntry) -> Iterable[Reference]:
    found = (_REFERENCE.fullmatch(word) for word in entry.subject.split())
    return [(one[1], one[2]) for one in found if one]


def _people(entries: Sequence[AuditEntry]) -> dict[str, str]:
    slugs = {slug for entry in entries for slug in (entry.actor, entry.owner_slug, *entry.subject.split()[:2])}
    return {slug: address_of(slug) for slug in Owner.objects.filter(slug__in=slugs).values_list("slug", flat=True)}


def _runs(user: User, ids: set[UUID]) -> dict[UUID, Named]:
    rows = visible_runs(user).filter(pk__in=ids).values_list("pk", "kind") if ids else ()
    return {pk: Named(f"{kind} run", reverse("run", args=[pk])) for pk, kind in rows}


def _part(
    word: str,
    action: str,
    named: Mapping[UUID, Named],
    addresses: Mapping[tuple[str, Reference], str],
    people: Mapping[str, str],
) -> Part:
    if _ID.fullmatch(word):
        found = named.get(UUID(word))
        return Part(found.text, found.url, word) if found else Part(word)
    if reference := _REFERENCE.fullmatch(word):
        return Part(word, addresses.get((action, (reference[1], reference[2])), ""))
    return Part(word, people.get(word, "") if any(about in action for about in _ABOUT_PEOPLE) else "")
