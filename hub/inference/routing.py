"""Decides which address answers a call: registered endpoints, or a local model's deployment, started if necessary."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from uuid import UUID

from envhub.protocol.models.catalog import EndpointKind, ModelSource, TargetVariant
from envhub.protocol.runs import RunState

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.catalog.queries import get_model
from hub.catalog.wire import target_for
from hub.core import clock
from hub.core.errors import Invalid, Unavailable
from hub.inference.models import Deployment
from hub.inference.queries import deployment_of_model
from hub.inference.services import ensure_deployment
from hub.runs.placing.waiting import waiting_reasons
from hub.secrets.services import decrypt

_turn = itertools.count()


@dataclass(frozen=True)
class Route:
    """Addresses to try in order; none while it is starting. `inside`: our own workers, as opposed to users' URLs."""

    variants: tuple[TargetVariant, ...]
    inside: bool
    model: str
    model_id: UUID
    deployment_id: UUID | None = None  # the deployment whose usage is counted

    def turned(self) -> Route:
        """Return the route with the next address first."""
        first = next(_turn) % max(1, len(self.variants))
        return replace(self, variants=self.variants[first:] + self.variants[:first])


def find_route(user: User, reference: str) -> Route:
    """Return where to send a call for "owner/name"; a local model that is not served is started.

    Prime's clients name an adapter together with its base, "base:owner/name".
    Raises NotFound, Invalid for an Anthropic endpoint, Unavailable.
    """
    model = get_model(user, reference.rpartition(":")[2])
    if model.source == ModelSource.LOCAL.value:
        return _inside_route(model, ensure_deployment(model=model, user=user))
    usable = tuple(variant for variant in target_for(model).variants if variant.kind is EndpointKind.OPENAI)
    if not usable:
        raise Invalid(
            f"{reference} uses Anthropic's protocol",
            code="wrong_protocol",
            hint="use it in evaluations; /inference/v1 serves only OpenAI-compatible models",
        )
    return Route(variants=usable, inside=False, model=reference, model_id=model.pk)


def started_route(model_id: UUID) -> Route:
    """Return a local model's current route. Raises Unavailable if its run has ended or is gone."""
    deployment = deployment_of_model(model_id)
    if deployment is None:
        raise Unavailable("the deployment has just been deleted", hint="try again")
    return _inside_route(deployment.model, deployment)


def why_not_served(model_id: UUID) -> Unavailable:
    """Return the error for a caller who has waited long enough."""
    deployment = deployment_of_model(model_id)
    run = deployment.run if deployment else None
    reason = "its run is gone" if run is None else waiting_reasons([run], now=clock.now()).get(run.pk, run.state)
    return Unavailable(f"the model is not served yet: {reason}", code="model_starting", hint="try again")


def _inside_route(model: Model, deployment: Deployment) -> Route:
    name, run = f"{model.owner.slug}/{model.name}", deployment.run
    if deployment.base_url:
        key = decrypt(deployment.encrypted_secret)
        variant = TargetVariant(kind=EndpointKind.OPENAI, base_url=deployment.base_url, model=name, api_key=key)
        return Route((variant,), inside=True, model=name, model_id=model.pk, deployment_id=deployment.pk)
    if run is None or RunState(run.state).is_final:
        failure = (run.failure if run else None) or {}
        reason = failure.get("message") or (run.state if run else "its run is gone")
        raise Unavailable(f"the model could not be started: {reason}", hint=failure.get("hint", ""))
    return Route((), inside=True, model=name, model_id=model.pk, deployment_id=deployment.pk)
