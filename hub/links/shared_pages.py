"""What whoever has a share link sees: one result, whoever they are, and nothing that leads elsewhere.

Nothing here asks `request.user`: every row is reached from the link alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import update_wrapper
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from envhub.protocol.accounts.links import LinkKind

from hub.accounts.client_address import client_address
from hub.accounts.services.limits import TooManyRequests, limit_rate
from hub.core.errors import HubError, Invalid, NotFound
from hub.core.pages import HEADLINES, fragment_of, refusal, show
from hub.evals.annotation_targets import target_of
from hub.evals.annotations import label_counts
from hub.evals.comparing.example_sides import example_figures, place_of
from hub.evals.comparing.pages import comparison_figures
from hub.evals.comparing.sides import Sides, compare_rows
from hub.evals.comparing.view import ComparisonQuery, asked_of, settings_that_differ
from hub.evals.models import Evaluation
from hub.evals.pages import figures, listed
from hub.evals.queries import get_rollout, read_record
from hub.evals.reading.opened_records import open_record
from hub.evals.reading.reader import read_rollout
from hub.evals.reading.record_reader import picture_of
from hub.evals.reports.figures import evaluation_report
from hub.evals.reports.pages import comparison_report
from hub.evals.rollout_filter import OUTCOMES, SORTS
from hub.links.models import ShareLink
from hub.links.queries import find_shared, shown_evaluations, shown_training
from hub.links.services import note_opened
from hub.links.shared_settings import shared_settings
from hub.training.pages.reader import read_training_rollout
from hub.training.pages.rollouts import step_figures
from hub.training.pages.run import training_figures
from hub.training.queries import get_rollout as get_training_rollout
from hub.training.queries import read_record as read_training_record
from hub.training.queries import recent_metrics
from hub.training.reports import training_report
from hub.training.rollout_filter import USED
from hub.training.wire import trained_on, training_views

MOST = 300  # requests a minute of one address with one link
MINUTE = 60
MOST_WRONG = 30  # links that show nothing, of one address in five minutes
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
    "Cache-Control": "private, no-store",
}
BASE = "links/base.html"
View = Callable[..., HttpResponseBase]


def _shared(view: View) -> View:
    """A view of what a link shows. A link that is wrong, over or revoked, and what it does not show, look the same."""

    def run(request: HttpRequest, secret: str, **kwargs: Any) -> HttpResponseBase:
        try:
            response = view(request, _link(request, secret), **kwargs)
        except NotFound:
            response = show(request, "links/gone.html", {"shared": True}, status=404, base=BASE)
        except HubError as error:
            response = _problem(request, error)
        for name, value in HEADERS.items():
            response.headers[name] = value
        return response

    return update_wrapper(run, view)


def _link(request: HttpRequest, secret: str) -> ShareLink:
    """Raises NotFound, TooManyRequests."""
    address = client_address(request)
    try:
        link = find_shared(secret)
    except NotFound:
        limit_rate(key=f"shared-wrong:{address}", limit=MOST_WRONG, per=timedelta(minutes=5))
        raise
    _limit_reads(f"shared:{link.pk}:{address}")
    return link


def _limit_reads(key: str) -> None:
    """Counted in the cache: a row for each picture would cost more than the picture. Raises TooManyRequests."""
    cache.add(key, 0, timeout=MINUTE)
    try:
        count = cache.incr(key)
    except ValueError:  # the minute ended between the two
        return
    if count > MOST:
        raise TooManyRequests(MINUTE)


def _problem(request: HttpRequest, error: HubError) -> HttpResponse:
    context = {"shared": True, "headline": HEADLINES.get(error.status, "That did not work"), "error": error}
    return refusal(show(request, "links/problem.html", context, status=error.status, base=BASE), error)


@_shared
@require_safe
def shared(request: HttpRequest, link: ShareLink) -> HttpResponseBase:
    """What the link is a link to."""
    views = {
        LinkKind.EVALUATION: _evaluation,
        LinkKind.ROLLOUT: _rollout,
        LinkKind.COMPARISON: _comparison,
        LinkKind.TRAINING: _training,
    }
    response = views[LinkKind(link.kind)](request, link)
    if request.method == "GET" and not fragment_of(request):
        note_opened(link)
    return response


def _context(request: HttpRequest, link: ShareLink) -> dict[str, Any]:
    secret = request.resolver_match.kwargs["secret"] if request.resolver_match else ""
    return {"shared": True, "link": link, "address": reverse("shared", args=[secret])}


def _show(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    return show(request, template, context, base=BASE, status=422 if context.get("error") else 200)


def _evaluation(request: HttpRequest, link: ShareLink) -> HttpResponse:
    (found,) = shown_evaluations(link)
    context = _context(request, link)
    context |= {
        "evaluation": found,
        "rollouts_at": f"{context['address']}/0/rollouts",
        "labels": label_counts(target_of(found)),
    }
    if not fragment_of(request):
        context |= figures(found) | {"settings": shared_settings(found)}
    try:
        context |= listed(request, found, labelled=bool(context["labels"]))
    except Invalid as error:
        context |= {"error": error, "outcomes": OUTCOMES, "sorts": SORTS}
    return _show(request, "links/evaluation.html", context)


def _rollout(request: HttpRequest, link: ShareLink) -> HttpResponseBase:
    (found,) = shown_evaluations(link)
    if link.example is None or link.rollout is None:
        raise NotFound("this link does not work")
    context = _context(request, link)
    return _read(request, found, (link.example, link.rollout), context | {"address": "", "side": 0})


def _comparison(request: HttpRequest, link: ShareLink) -> HttpResponse:
    context = _context(request, link)
    asked, compared = _compared(request, link)
    places = [f"{context['address']}/{place}/rollouts" for place in range(len(compared.evaluations))]
    context |= comparison_figures(asked, compared, places)
    context |= _told(context)
    context["next"] = _own_page(context["next"], context["address"])
    return _show(request, "links/comparison.html", context)


@_shared
@require_safe
def shared_example(request: HttpRequest, link: ShareLink, example: int) -> HttpResponseBase:
    """An example of a comparison: the attempts at it side by side."""
    if link.kind != LinkKind.COMPARISON:
        raise NotFound("this link does not work")
    context, evaluations = _context(request, link), shown_evaluations(link)
    places = [f"{context['address']}/{place}/rollouts" for place in range(len(evaluations))]
    try:
        context |= example_figures(evaluations, place_of(request, example=example), "", places)
    except NotFound as error:  # no rollout of that number: the link still shows the others
        return _problem(request, error)
    return _show(request, "links/example.html", context)


def _compared(request: HttpRequest, link: ShareLink) -> tuple[ComparisonQuery, Sides]:
    """The link's evaluations, ordered and narrowed as the address says; ids in it mean nothing."""
    evaluations = shown_evaluations(link)
    query = request.GET.copy()
    query["a"] = str(evaluations[0].pk)
    query.setlist("b", [])
    return asked_of(query), compare_rows(evaluations)


def _told(found: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ, of those that strangers may know."""
    told = [{"version": side.view.version or "–"} | dict(shared_settings(side.evaluation)) for side in found["sides"]]
    return {"settings": settings_that_differ(told)}


def _own_page(following: str | None, address: str) -> str | None:
    """The next page's address without the ids, which mean nothing here."""
    return (
        following and f"{address}?{'&'.join(part for part in following[1:].split('&') if part[:2] not in ('a=', 'b='))}"
    )


def _training(request: HttpRequest, link: ShareLink) -> HttpResponse:
    context = _training_context(request, link)
    found = context["training"]
    recent = recent_metrics(found) if found.step else []
    return _show(request, "links/training.html", training_figures(request, found, recent) | context)


def _training_context(request: HttpRequest, link: ShareLink) -> dict[str, Any]:
    """Raises NotFound."""
    found, context = shown_training(link), _context(request, link)
    (view,) = training_views([found], now=timezone.now())
    about = {"training": found, "view": view, "trained_on": trained_on(found)}
    return context | about | {"listed_at": f"{context['address']}/rollouts"}


@_shared
@require_safe
def shared_training_rollouts(request: HttpRequest, link: ShareLink) -> HttpResponseBase:
    """The rollouts of a step of the training run that a link shows."""
    context = _training_context(request, link) | {"outcomes": OUTCOMES, "used_options": USED}
    try:
        context = step_figures(request, context["training"]) | context
    except (Invalid, NotFound) as error:  # a step that there is not: the link still shows the others
        context["error"] = error
    return _show(request, "links/training_rollouts.html", context)


@_shared
@require_safe
def shared_training_rollout(request: HttpRequest, link: ShareLink, step: int, index: int) -> HttpResponseBase:
    """One of them."""
    context = _training_context(request, link)
    found = context["training"]
    return read_training_rollout(request, found, get_training_rollout(found, step, index), context, _show)


@_shared
@require_safe
def shared_training_picture(
    request: HttpRequest, link: ShareLink, step: int, index: int, number: int, picture: int
) -> HttpResponseBase:
    """A picture of a turn of one of them."""
    row = get_training_rollout(shown_training(link), step, index)
    return picture_of(request, open_record(row, read_training_record), number, picture, {})


@_shared
@require_safe
def shared_report(request: HttpRequest, link: ShareLink) -> HttpResponseBase:
    """Its report, made for print."""
    address = _context(request, link)["address"]
    context: dict[str, Any] = {"shared": True, "back": address, "now": timezone.now()}
    if link.kind == LinkKind.TRAINING:
        context |= training_report(shown_training(link), inside=False)
        return render(request, "training/run_report.html", context)
    if link.kind == LinkKind.COMPARISON:
        asked, compared = _compared(request, link)
        report = comparison_report(asked, compared)
        return render(request, "evals/comparison_report.html", context | report | _told(report))
    if link.kind == LinkKind.ROLLOUT:
        raise NotFound("this link does not work")
    report = evaluation_report(*shown_evaluations(link), inside=False)
    return render(request, "evals/evaluation_report.html", context | report)


@_shared
@require_safe
def shared_rollout(request: HttpRequest, link: ShareLink, side: int, example: int, rollout: int) -> HttpResponseBase:
    """A rollout of what a link shows."""
    found = _side(link, side, example, rollout)
    return _read(
        request, found, (example, rollout), _context(request, link) | {"side": side, "compared": link.sides > 1}
    )


def _read(request: HttpRequest, found: Evaluation, place: tuple[int, int], context: dict[str, Any]) -> HttpResponseBase:
    secret = request.resolver_match.kwargs["secret"] if request.resolver_match else ""
    rollouts_at = f"{reverse('shared', args=[secret])}/{context['side']}/rollouts"
    context |= {"evaluation": found, "row": get_rollout(found, *place), "rollouts_at": rollouts_at}
    return read_rollout(request, context, _show)


@_shared
@require_safe
def shared_picture(
    request: HttpRequest, link: ShareLink, side: int, example: int, rollout: int, number: int, index: int
) -> HttpResponseBase:
    """A picture of a turn of such a rollout."""
    row = get_rollout(_side(link, side, example, rollout), example, rollout)
    return picture_of(request, open_record(row, read_record), number, index, {})


def _side(link: ShareLink, side: int, example: int, rollout: int) -> Evaluation:
    """The evaluation of a rollout, if the link shows that. Raises NotFound."""
    evaluations = shown_evaluations(link) if link.kind != LinkKind.TRAINING else []
    alone = link.kind == LinkKind.ROLLOUT
    if side >= len(evaluations) or (alone and (example, rollout) != (link.example, link.rollout)):
        raise NotFound("this link does not work")
    return evaluations[side]
