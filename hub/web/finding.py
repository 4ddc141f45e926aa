"""The search over everything, for the page /search and the box that Ctrl-K opens.

Every part reads a bounded number of rows, whatever the size of the tables: environments by the index of their words,
what has an id by a range of the primary key, and of models, evaluations and training runs the newest that the caller
may see.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.urls import reverse
from envhub.protocol.registry.packages import VersionState

from hub.accounts.addresses import address_of
from hub.accounts.models import Owner, User
from hub.accounts.queries import SYSTEM_OWNER, Caller, visible_owner_ids
from hub.catalog.queries import visible_models
from hub.core.ids import AmbiguousId, find_by_id, read_id
from hub.evals.queries import visible_evaluations
from hub.registry.models import Environment
from hub.registry.queries import search_environments, visible_environments
from hub.runs.queries import visible_runs
from hub.sandboxes.queries import visible_sandboxes
from hub.training.queries import visible_training
from hub.web.documentation.documents import search as search_documents

SHOWN = 5  # of each kind
MOST: Mapping[str, int] = defaultdict(lambda: SHOWN, {"Go to": 40})
NEWEST = 100  # rows of a kind whose names are looked at
EVALUATED = 3  # environments for which an evaluation is offered
EVALUATE = "evaluate"  # what may be typed before an environment's name, or its first letters
MOST_WORDS = 8
PLACES = {  # where there is to go, by the words that find it
    "Environments": "environments",
    "Evaluations": "evaluations",
    "Compare two evaluations": "evaluation-compare",
    "Training runs": "training",
    "New training run": "training-new",
    "Models": "models",
    "Data sets": "data",
    "Sandboxes": "sandboxes",
    "Runs: queued and running": "runs",
    "Documentation": "documents",
}
OWN_PLACES = {
    "New environment": "environment-new",
    "Deployments": "deployments",
    "Notifications": "notifications",
    "Act for a team": "acting",
    "Settings: API tokens": "tokens",
    "Settings: secrets": "secrets",
    "Settings: teams": "teams",
    "Settings: audit log": "audit",
    "Settings: usage and quotas": "usage",
    "Settings: storage": "storage",
    "Settings: webhooks": "webhooks",
    "Settings: share links": "links",
    "Settings: account": "account",
    "Settings: password": "password",
}
ADMINISTRATORS_PLACES = {
    "Administration: workers": "workers",
    "Administration: queue": "administration-queue",
    "Administration: sandboxes": "administration-sandboxes",
    "Administration: storage": "administration-storage",
    "Administration: quotas": "administration-quotas",
    "Administration: data sets": "administration-data",
    "Administration: users": "users",
}


@dataclass(frozen=True)
class Hit:
    """One thing to go to."""

    title: str
    about: str
    url: str


@dataclass(frozen=True)
class Group:
    """Hits of one kind."""

    title: str
    hits: tuple[Hit, ...]


def find(user: Caller, words: str) -> list[Group]:
    """What matches every word; without words, the places to go to."""
    asked = words.lower().split()[:MOST_WORDS]
    if not asked:
        return _groups({"Go to": _places(user, asked)})
    wants_evaluation = len(asked) > 1 and len(asked[0]) > 2 and EVALUATE.startswith(asked[0])
    about = asked[1:] if wants_evaluation else asked
    environments = list(search_environments(user, search=" ".join(about)).order_by("-updated_at", "-pk")[:SHOWN])
    return _groups(
        {
            "By id": _by_id(user, words.strip()),
            "Go to": _places(user, asked),
            "Evaluate": _to_evaluate(user, environments),
            "Environments": _environments(() if wants_evaluation else environments),
            "Users and teams": _owners(user, asked),
            "Models": _models(user, asked),
            "Evaluations": _evaluations(user, asked),
            "Training": _training(user, asked),
            "Documentation": _documents(words),
        }
    )


def _groups(found: dict[str, Iterable[Hit]]) -> list[Group]:
    groups = [Group(title, tuple(islice(hits, MOST[title]))) for title, hits in found.items()]
    return [group for group in groups if group.hits]


def _places(user: Caller, asked: list[str]) -> Iterator[Hit]:
    places = PLACES | OWN_PLACES if isinstance(user, User) else PLACES
    if isinstance(user, User) and user.is_administrator:
        places = places | ADMINISTRATORS_PLACES
    for title, name in places.items():
        # What only contains the word, as "Settings: password" does "word", would come before what is meant.
        if all(any(part.startswith(word) for part in re.findall(r"\w+", title.lower())) for word in asked):
            yield Hit(title, "", reverse(name))


def _environments(rows: Iterable[Environment]) -> Iterator[Hit]:
    for row in rows:
        url = reverse("environment", args=(row.owner.slug, row.name))
        yield Hit(f"{row.owner.slug}/{row.name}", row.description, url)


def _to_evaluate(user: Caller, rows: Iterable[Environment]) -> Iterator[Hit]:
    """Forms that evaluate a model on what is found, for those who may start something."""
    ready = (row for row in rows if row.latest and row.latest.state == VersionState.READY.value and not row.archived)
    for row in islice(ready if isinstance(user, User) else (), EVALUATED):
        name = f"{row.owner.slug}/{row.name}"
        yield Hit(f"Evaluate {name}", "start an evaluation", reverse("evaluate", args=(row.owner.slug, row.name)))


def _owners(user: Caller, asked: list[str]) -> Iterator[Hit]:
    """Users and teams whose name begins so, of whom the user may see something; the first NEWEST are looked at."""
    if len(asked) != 1:
        return
    begins = Owner.objects.filter(slug__startswith=asked[0]).exclude(slug=SYSTEM_OWNER).order_by("slug")
    shows = Exists(visible_environments(user).filter(owner_id=OuterRef("pk")))
    rows = Owner.objects.filter(pk__in=begins.values("pk")[:NEWEST])
    for row in rows.filter(Q(pk__in=visible_owner_ids(user)) | shows).order_by("slug")[:SHOWN]:
        yield Hit(row.slug, row.kind, address_of(row.slug))


def _models(user: Caller, asked: list[str]) -> Iterator[Hit]:
    for row in visible_models(user).prefetch_related(None)[:NEWEST]:
        if _has_all(f"{row.owner.slug}/{row.name}", asked):
            url = reverse("model", args=(row.owner.slug, row.name))
            yield Hit(f"{row.owner.slug}/{row.name}", row.engine or "endpoint", url)


def _evaluations(user: Caller, asked: list[str]) -> Iterator[Hit]:
    for row in visible_evaluations(user).defer("config", "work", "aggregate")[:NEWEST]:
        what = f"{row.environment.owner.slug}/{row.environment.name} on {row.model_name}"
        if _has_all(f"{what} {row.name}", asked):
            about = f"{what}, {row.state}" if row.name else row.state
            about = f"{about}, {_day(row.created_at)}"
            yield Hit(row.name or what, about, reverse("evaluation", args=(row.pk,)))


def _training(user: Caller, asked: list[str]) -> Iterator[Hit]:
    for row in visible_training(user)[:NEWEST]:
        if _has_all(f"{row.name} {row.model_name} {row.adapter_name}", asked):
            about = f"{row.model_name}, {row.state}, {_day(row.created_at)}"
            yield Hit(row.name or row.model_name, about, reverse("training-run", args=(row.pk,)))


def _day(moment: datetime) -> str:
    """Tells apart what has the same name."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _documents(words: str) -> Iterator[Hit]:
    for found in search_documents(words, most=SHOWN):
        url = reverse("document", args=(found.section.slug,))
        anchor = f"#{found.section.anchor}" if found.section.anchor else ""
        yield Hit(found.section.title, found.document, url + anchor)


def _by_id(user: Caller, text: str) -> Iterator[Hit]:
    """What has this id, or one that begins so. A run that belongs to an evaluation or a training is shown as that."""
    try:
        given = read_id(text)
    except ValueError:
        return
    kinds: tuple[tuple[str, str, QuerySet[Model]], ...] = (
        ("Evaluation", "evaluation", visible_evaluations(user)),
        ("Training run", "training-run", visible_training(user)),
        ("Run", "run", visible_runs(user)),
        ("Sandbox", "sandbox", visible_sandboxes(user)),
    )
    for title, name, rows in kinds:
        try:
            row = find_by_id(rows, given, lambda row: "")
            keys: list[str | UUID] = [row.pk] if row else []
        except AmbiguousId as error:
            keys = [*error.fields]
        yield from (Hit(f"{title} {key}", "", reverse(name, args=(key,))) for key in keys[:SHOWN])


def _has_all(text: str, asked: list[str]) -> bool:
    lower = text.lower()
    return all(word in lower for word in asked)
