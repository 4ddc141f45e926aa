"""The pictures that chats show for public pages. Everybody gets the same one, whoever asks: what is private is 404.

Each process keeps those that it drew last, and draws one at a time; an ETag is the hash of what a picture shows.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe
from envhub.protocol.evals.evaluations import MetricSummary

from hub.core.ids import GivenId
from hub.core.pages import page
from hub.evals.queries import get_evaluation
from hub.evals.wire import evaluation_view
from hub.registry.cards import card_of
from hub.registry.queries import get_environment
from hub.training.charts.history import last_rewards
from hub.training.queries import get_training
from hub.training.wire import training_view
from hub.web.preview_pictures import Preview, draw
from hub.web.templatetags.hub_format import plus_minus, score, whole

FRESH = 600  # seconds for which chats and proxies need not ask again
KEPT = 64  # pictures of about 20 KB in each process
EVERYBODY = AnonymousUser()
_kept = lru_cache(KEPT)(draw)
_drawing = Lock()  # whoever asks for many at once has one core at most


@page
@require_safe
def environment_preview(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Its description, best model and recent means."""
    found = get_environment(EVERYBODY, owner, name)
    card = card_of(found, is_member=False)
    best = "" if card.score is None else score(card.score)
    return _picture(
        request,
        Preview(
            "Environment",
            f"{found.owner.slug}/{found.name}",
            (found.description, f"version {found.latest.version}" if found.latest else ""),
            best,
            f"mean reward of {card.model}" if best else "",
            card.means,
        ),
    )


@page
@require_safe
def evaluation_preview(request: HttpRequest, evaluation_id: GivenId) -> HttpResponseBase:
    """Its mean reward."""
    view = evaluation_view(get_evaluation(EVERYBODY, evaluation_id))
    reward = view.summary.reward
    version = f"version {view.version}" if view.version else ""
    counted = f"{whole(reward.count)} rollouts" if reward else view.state.value
    return _picture(
        request,
        Preview(
            "Evaluation",
            f"{view.environment} on {view.model}",
            (version, counted),
            _figure(reward) if reward else "",
            "mean reward" if reward else "",
        ),
    )


@page
@require_safe
def training_preview(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Its newest reward and the curve of its newest steps."""
    found = get_training(EVERYBODY, training_id)
    view = training_view(found, {})
    reward = view.latest.reward_mean if view.latest else None
    return _picture(
        request,
        Preview(
            "Training",
            view.name or view.model,
            (f"{view.model} on {', '.join(view.environments)}", f"step {view.step} of {view.max_steps}"),
            "" if reward is None else score(reward),
            "" if reward is None else "reward of the newest step",
            tuple(last_rewards([found]).get(found.pk, ())),
        ),
    )


def _figure(reward: MetricSummary) -> str:
    known = reward.std_error is not None and reward.limit is None
    return f"{score(reward.mean)} {plus_minus(reward.std_error)}" if known else score(reward.mean)


def _picture(request: HttpRequest, preview: Preview) -> HttpResponseBase:
    etag = f'"{preview.digest}"'
    unchanged = get_conditional_response(request, etag=etag)
    response = unchanged or HttpResponse(_drawn(preview), content_type="image/png")
    response["ETag"] = etag
    response["Cache-Control"] = f"public, max-age={FRESH}"
    return response


def _drawn(preview: Preview) -> bytes:
    with _drawing:
        return _kept(preview)
