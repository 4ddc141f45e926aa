"""Pages of the documentation; for everybody, signed in or not."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from hub.core.errors import NotFound
from hub.core.pages import page, show
from hub.web.documentation.contents import CONTENTS, ENTRIES
from hub.web.documentation.documents import document, search

LONGEST_SEARCH = 200


@page
@require_safe
def index(request: HttpRequest) -> HttpResponseBase:
    """The first document; with `q`, what was found."""
    words = request.GET.get("q", "")[:LONGEST_SEARCH].strip()
    if not words and "q" not in request.GET:
        return redirect("document", slug=CONTENTS[0].entries[0].slug)
    context = {"chapters": chapters(), "query": words, "found": search(words), "section": "docs"}
    return show(request, "web/document_search.html", context)


@page
@require_safe
def read(request: HttpRequest, slug: str) -> HttpResponseBase:
    """One document."""
    if slug not in ENTRIES:
        raise NotFound(f"the document {slug} does not exist", hint="see the list on /docs, or search there")
    order, hub = list(ENTRIES), str(settings.HUB.base_url).rstrip("/")
    place = order.index(slug)
    around = {"before": place - 1 if place else None, "after": place + 1 if place + 1 < len(order) else None}
    context = {
        "chapters": chapters(),
        "document": document(slug, hub),
        "section": "docs",
        **{name: document(order[at]) if at is not None else None for name, at in around.items()},
    }
    return show(request, "web/document.html", context)


def chapters() -> list[tuple[str, list[tuple[str, str]]]]:
    """Titles of the chapters, each with (slug, title) of its documents."""
    return [
        (chapter.title, [(entry.slug, document(entry.slug).title) for entry in chapter.entries]) for chapter in CONTENTS
    ]
