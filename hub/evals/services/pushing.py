"""Evaluations that were made elsewhere and are uploaded by their owner."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone
from envhub.protocol.evals.evaluations import EvaluationPush, EvaluationSource
from envhub.protocol.runs import RunState
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.core.database_json import storable
from hub.core.errors import Conflict
from hub.evals.models import Evaluation
from hub.evals.services.creating import count_evaluation, storable_settings
from hub.evals.services.ranking import rank
from hub.evals.services.watching import tell_watchers_on_commit
from hub.registry.archived import require_not_archived
from hub.registry.queries import get_environment, get_version_of, split_reference
from hub.registry.services.environments import mark_cards


def push_evaluation(*, user: User, owner: Owner, request: EvaluationPush) -> Evaluation:
    """Begin or continue an upload; the same fingerprint again returns the existing evaluation.

    Raises NotFound (environment), NotAllowed (role), Invalid (configuration or metadata too large).
    """
    require_role(user, owner, Role.MEMBER)
    environment_owner, name, version = split_reference(request.environment)
    environment = get_environment(user, environment_owner, name)
    require_not_archived(environment)
    config = request.config
    with transaction.atomic():
        evaluation, created = Evaluation.objects.get_or_create(
            owner=owner,
            fingerprint=request.fingerprint,
            defaults={
                "environment": environment,
                "version": get_version_of(environment, version) if "@" in request.environment else None,
                "model_name": storable(request.model)[:255],
                "name": storable(config.name)[:200],
                "source": EvaluationSource.PUSHED.value,
                "state": RunState.RUNNING.value,
                "visibility": (config.visibility or Visibility.PRIVATE).value,
                "config": storable_settings("configuration", config.model_dump(mode="json")),
                "push_format": storable(request.format)[:32],
                "push_metadata": storable_settings("metadata", request.metadata),
                "created_by": user,
            },
        )
        if created:
            count_evaluation(evaluation, 1)
    return evaluation


def finalize_push(*, user: User, evaluation: Evaluation, state: RunState = RunState.SUCCEEDED) -> Evaluation:
    """Mark the upload as complete, or as ended in another state; idempotent.

    Raises NotAllowed, Conflict for a hosted evaluation.
    """
    require_role(user, evaluation.owner, Role.MEMBER)
    if evaluation.is_hosted:
        raise Conflict("a hosted evaluation ends with its run", code="hosted")
    open_ones = Evaluation.objects.filter(pk=evaluation.pk, state=RunState.RUNNING.value)
    with transaction.atomic():
        ended = open_ones.update(state=state.value, finished_at=timezone.now())
        evaluation.refresh_from_db()
        if ended:
            rank(evaluation)
            mark_cards(Evaluation.objects.filter(pk=evaluation.pk))
            tell_watchers_on_commit(evaluation)
    return evaluation
