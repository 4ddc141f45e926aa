"""Reports about evaluations and comparisons for print: two pages of A4 or Letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from envhub.protocol.evals.fingerprints import FingerprintView
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import Role
from hub.accounts.permissions import check_read
from hub.accounts.queries import has_role
from hub.core import clock
from hub.core.http import answer
from hub.core.ids import GivenId
from hub.core.pages import page
from hub.evals.comparing.matrix import MatrixRow
from hub.evals.comparing.pages import comparison_figures
from hub.evals.comparing.sides import Sides, compare_many
from hub.evals.comparing.view import ComparisonQuery, asked_of
from hub.evals.hidden_values import shown_outside
from hub.evals.queries import get_evaluation, prompts
from hub.evals.reports.figures import MOST_METRICS, evaluation_report
from hub.evals.reports.fingerprints import evaluation_fingerprint

MOST_FLIPS = 6
MOST_SETTINGS = 8


@extend_schema(responses=FingerprintView)
@api_view(["GET"])
def fingerprint_of_evaluation(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """What decides the result, and its SHA-256 as canonical JSON."""
    check_read(request)
    found = get_evaluation(request.user, evaluation_id)
    view = evaluation_fingerprint(found)
    if not has_role(request.user, found.owner, Role.READER):
        view = view.model_copy(update={"settings": shown_outside(view.settings)})
    return answer(view)


@page
@require_safe
def evaluation_report_page(request: HttpRequest, evaluation_id: GivenId) -> HttpResponseBase:
    """Show the report of one evaluation."""
    found = get_evaluation(request.user, evaluation_id)
    context = {"back": reverse("evaluation", args=[found.pk]), "now": clock.now()}
    inside = has_role(request.user, found.owner, Role.READER)
    return render(request, "evals/evaluation_report.html", context | evaluation_report(found, inside=inside))


@page
@require_safe
def comparison_report_page(request: HttpRequest) -> HttpResponseBase:
    """Show the report of a comparison, `?a=ID&b=ID`."""
    asked = asked_of(request.GET)
    compared = compare_many(request.user, [asked.a, *asked.b])
    context = {"back": f"{reverse('evaluation-compare')}?{asked.sides}", "now": clock.now()}
    return render(request, "evals/comparison_report.html", context | comparison_report(asked, compared))


def comparison_report(asked: ComparisonQuery, compared: Sides) -> dict[str, Any]:
    """Return the context of the comparison's report."""
    found = comparison_figures(asked, compared, [""] * len(compared.evaluations))
    broken, fixed = (_most(compared.found.rows, broken=one) for one in (True, False))
    texts = prompts(compared.evaluations, [row.example for row in (*broken, *fixed)])
    return found | {
        "figures": found.get("figures", ())[:MOST_METRICS],
        "settings": [(name, [text[:80] for text in texts]) for name, texts in found["settings"][:MOST_SETTINGS]],
        "broken_rows": [(row, texts.get(row.example, "")) for row in broken],
        "fixed_rows": [(row, texts.get(row.example, "")) for row in fixed],
        "fingerprints": [(side.letter, evaluation_fingerprint(side.evaluation)) for side in found["sides"]],
    }


def _most(rows: Sequence[MatrixRow], *, broken: bool) -> list[MatrixRow]:
    """Return the examples on which most evaluations are worse (or better) than A."""
    changed = [row for row in rows if (row.broken if broken else row.fixed)]
    changed.sort(key=lambda row: (-(row.broken if broken else row.fixed), row.example))
    return changed[:MOST_FLIPS]
