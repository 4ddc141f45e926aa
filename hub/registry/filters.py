"""Filters and sorts lists of environments, with the same query parameters for the page and the API.

Counts next to the filters cover the first MOST_COUNTED environments that the search finds, so that their cost does not
grow with the table; if there are more, the page says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import chain
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from hub.accounts.models import User
from hub.accounts.queries import visible_owner_ids
from hub.core.database_json import storable_text
from hub.core.errors import Invalid
from hub.core.pagination import highest_first, newest_first
from hub.registry.facts import Kind
from hub.registry.models import Environment, Star
from hub.registry.queries import Viewer, search_environments
from hub.registry.services.environments import MARK

MOST_COUNTED = 1000
MOST_VALUES = 10  # values per facet
LONGEST = 200
YES, NO = "yes", "no"


class Sort(StrEnum):
    """How a list of environments is ordered."""

    RECENT = "recent"
    STARS = "stars"
    EVALUATED = "evaluated"
    TRAINABLE = "trainable"
    NEWEST = "newest"


SORT_TITLES = {
    Sort.RECENT: "Recently changed",
    Sort.STARS: "Most stars",
    Sort.EVALUATED: "Most evaluated",
    Sort.TRAINABLE: "Most trainable",
    Sort.NEWEST: "Newest",
}
_SORTED_BY = {
    Sort.RECENT: "updated_at",
    Sort.STARS: "stars",
    Sort.EVALUATED: "evaluations",
    Sort.TRAINABLE: "signal",
}
_CHOICES = {"kind": tuple(Kind), "sort": tuple(Sort), **dict.fromkeys(("leaderboard", "sandbox", "needs"), (YES, NO)),
            "starred": (YES,), "archived": (YES,)}  # fmt: skip


@dataclass(frozen=True)
class EnvironmentFilter:
    """What a list is narrowed to and sorted by; "" means no restriction."""

    search: str = ""
    owner: str = ""
    kind: str = ""
    tag: str = ""
    leaderboard: str = ""
    sandbox: str = ""
    needs: str = ""
    starred: str = ""
    archived: str = ""
    sort: str = ""

    @classmethod
    def read(cls, given: Mapping[str, str], sort: Sort = Sort.RECENT) -> EnvironmentFilter:
        """Read a query; `sort` is the default order. Raises Invalid for an unknown value."""
        found = {one.name: storable_text(given.get(one.name, ""))[:LONGEST].strip() for one in fields(cls)}
        for name, known in _CHOICES.items():
            if found[name] and found[name] not in known:
                raise Invalid(f"{name} is one of {', '.join(known)}", fields={name: found[name][:100]})
        return cls(**found | {"sort": found["sort"] or sort.value})

    @property
    def narrows(self) -> bool:
        """Whether it excludes anything."""
        return any(getattr(self, one.name) for one in fields(self) if one.name != "sort")

    @property
    def chosen(self) -> list[tuple[str, str]]:
        """The chosen facets as (name, value), which the search form keeps."""
        names = (one.name for one in fields(self) if one.name not in ("search", "sort"))
        return [(name, getattr(self, name)) for name in names if getattr(self, name)]

    def query(self, **changes: str) -> str:
        """Return the query string with these changes, without defaults."""
        changed = replace(self, **changes)
        given = {one.name: getattr(changed, one.name) for one in fields(self)}
        if given["sort"] == Sort.RECENT:
            del given["sort"]
        return urlencode({name: value for name, value in given.items() if value})


class FacetValue(NamedTuple):
    """One value: how many environments it leaves, and the query that chooses it or, if chosen, removes it."""

    title: str
    leaves: int
    query: str
    chosen: bool


class Facet(NamedTuple):
    """A criterion by which a list may be narrowed."""

    title: str
    values: tuple[FacetValue, ...]


class Facets(NamedTuple):
    """All facets; `capped`: there are more environments than were counted."""

    shown: tuple[Facet, ...]
    total: int
    capped: bool


def filtered(user: Viewer, asked: EnvironmentFilter) -> QuerySet[Environment]:
    """Return the visible environments that match, not ordered yet."""
    rows = search_environments(user, search=asked.search, owner=asked.owner).filter(archived=asked.archived == YES)
    if asked.kind:
        rows = rows.filter(kind=asked.kind)
    if asked.tag:
        rows = rows.filter(search_text__contains=f"{MARK}{asked.tag.lower()}{MARK}")
    if asked.sandbox:
        rows = rows.filter(uses_sandbox=asked.sandbox == YES)
    if asked.needs:
        rows = rows.filter(lacks=asked.needs == YES)
    if asked.leaderboard:
        ranked = Q(ranked_publicly=True) | Q(ranked_privately=True, owner_id__in=visible_owner_ids(user))
        rows = rows.filter(ranked if asked.leaderboard == YES else ~ranked)
    if asked.starred:
        rows = rows.filter(pk__in=_starred(user))
    return rows


def _starred(user: Viewer) -> QuerySet[Star, UUID]:
    stars = Star.objects.filter(user=user) if isinstance(user, User) else Star.objects.none()
    return stars.values_list("environment_id", flat=True)


def page_of(request: HttpRequest, asked: EnvironmentFilter, default: int = 50) -> tuple[list[Environment], str | None]:
    """Return one page, and the next one's address. Raises Invalid."""
    rows, field = filtered(request.user, asked), _SORTED_BY.get(Sort(asked.sort))
    return highest_first(rows, request, field, default) if field else newest_first(rows, request, default)


@dataclass(frozen=True)
class _Counted:
    """The values of one environment in the facets."""

    owner: str
    kind: str
    tags: tuple[str, ...]
    leaderboard: str
    sandbox: str
    needs: str
    starred: str
    archived: str


def facets(user: Viewer, asked: EnvironmentFilter) -> Facets:
    """Count the environments found by each value of each facet, given the choices in all other facets."""
    rows = search_environments(user, search=asked.search).select_related(None).order_by("-updated_at", "-pk")
    mine, stars = set(visible_owner_ids(user)), set(_starred(user)[:MOST_COUNTED])
    names = ("pk", "owner_id", "owner__slug", "kind", "tags", "ranked_publicly", "ranked_privately", "uses_sandbox")
    known = list(rows.values_list(*names, "archived", "lacks")[: MOST_COUNTED + 1])
    counted = [
        _Counted(
            owner=slug,
            kind=kind,
            tags=tuple(tags),
            leaderboard=_said(publicly or (privately and owner in mine)),
            sandbox=_said(sandbox),
            needs=_said(lacks),
            starred=YES if pk in stars else "",
            archived=YES if archived else "",
        )
        for pk, owner, slug, kind, tags, publicly, privately, sandbox, archived, lacks in known[:MOST_COUNTED]
    ]
    left = _left(counted, asked)
    return Facets(tuple(_facets(left, asked, user)), len(left[""]), len(known) > MOST_COUNTED)


def _said(value: bool) -> str:
    return YES if value else NO


def _left(counted: Iterable[_Counted], asked: EnvironmentFilter) -> Mapping[str, list[_Counted]]:
    """Group the rows in one pass: those that match all choices under "", those that fail only one under its name."""
    names = ("owner", "kind", "leaderboard", "sandbox", "needs", "starred")
    wanted = [(name, value) for name in names if (value := getattr(asked, name))]
    tag, left = asked.tag.lower(), defaultdict[str, list[_Counted]](list)
    for row in counted:
        missed = [name for name, value in wanted if getattr(row, name) != value]
        if row.archived != asked.archived:
            missed.append("archived")
        if tag and tag not in row.tags:
            missed.append("tag")
        if len(missed) <= 1:
            left[missed[0] if missed else ""].append(row)
    return left


def _facets(left: Mapping[str, list[_Counted]], asked: EnvironmentFilter, user: Viewer) -> Iterable[Facet]:
    def facet(title: str, name: str, read: Callable[[_Counted], Iterable[str]], titles: Mapping[str, str]) -> Facet:
        found = Counter(value for row in chain(left[""], left[name]) for value in read(row) if value)
        chosen = getattr(asked, name)
        shown = [value for value, _ in sorted(found.items(), key=lambda one: (-one[1], one[0]))][:MOST_VALUES]
        if chosen and chosen not in shown:
            shown.append(chosen)
        values = (
            FacetValue(
                titles.get(value, value),
                found[value],
                asked.query(**{name: "" if value == chosen else value}),
                value == chosen,
            )
            for value in shown
            if not titles or value in titles
        )
        return Facet(title, tuple(values))

    own = {YES: "Starred by me"} if isinstance(user, User) else {NO: ""}
    narrow = [
        facet("", "starred", lambda row: [row.starred], own),
        facet("", "leaderboard", lambda row: [row.leaderboard], {YES: "Has a leaderboard"}),
        facet("", "needs", lambda row: [row.needs], {NO: "Needs nothing"}),
        facet("", "sandbox", lambda row: [row.sandbox], {YES: "Uses sandboxes"}),
        facet("", "archived", lambda row: [row.archived], {YES: "Archived"}),
    ]
    yield facet("Kind", "kind", lambda row: [row.kind], {})
    yield Facet("Only", tuple(value for one in narrow for value in one.values if value.leaves or value.chosen))
    yield facet("Tags", "tag", lambda row: row.tags, {})
    yield facet("Owners", "owner", lambda row: [row.owner], {})
