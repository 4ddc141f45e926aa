"""Score watches: users set them and are notified when an evaluation with such a score has ended."""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.db.models import Q
from envhub.protocol.accounts.notices import NoticeKind, ScoreWatchRequest
from envhub.protocol.accounts.webhooks import WebhookEvent, WebhookScore
from envhub.protocol.runs import RunKind, RunState

from hub.accounts.models import Membership, User
from hub.core.database_json import storable_text
from hub.core.errors import Invalid
from hub.evals.models import Evaluation, ScoreWatch
from hub.evals.statistics import Aggregate
from hub.notices.services import tell
from hub.registry.models import Environment
from hub.runs.models import Run
from hub.webhooks.queries import owners_with_webhooks
from hub.webhooks.services import tell_webhooks_of

MOST = 50  # watches per user and environment
MOST_TOLD = 1000  # users notified about one evaluation


def watch_scores(*, user: User, environment: Environment, request: ScoreWatchRequest) -> ScoreWatch:
    """Set the user's watch of a model, or of any, on an environment that they may see. Raises Invalid for too many."""
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        mine = ScoreWatch.objects.filter(user=user, environment=environment)
        model = storable_text(request.model)
        if mine.exclude(model_name=model).count() >= MOST:
            raise Invalid(f"you already watch {MOST} models on this environment", hint="remove one first")
        numbers = {"below": request.below, "above": request.above}
        return mine.update_or_create(user=user, environment=environment, model_name=model, defaults=numbers)[0]


def tell_of_run(run: Run) -> None:
    """`hub.runs.endings` listener: notify watchers when a hosted evaluation has succeeded."""
    if run.kind != RunKind.EVAL or run.parent_id is not None or run.state != RunState.SUCCEEDED:
        return
    found = Evaluation.objects.select_related("environment__owner").filter(run=run).first()
    if found is not None:
        tell_watchers_on_commit(found)


def tell_watchers_on_commit(evaluation: Evaluation) -> None:
    """Notify watchers when the evaluation's end is committed.

    Later, in a transaction of its own, since it locks users, and the end of another run may have locked one of them.
    """
    transaction.on_commit(partial(_tell_watchers, evaluation), robust=True)


@transaction.atomic
def _tell_watchers(evaluation: Evaluation) -> None:
    """Notify users who may see the evaluation and watch for such a score. Replays have no score of their own."""
    reward = Aggregate.model_validate(evaluation.aggregate).reward
    if reward is None or not reward.n or evaluation.config.get("replay"):
        return
    mean = reward.summary("reward").mean
    beyond = Q(below__gt=mean) | Q(above__lt=mean)
    of_it = Q(environment=evaluation.environment_id, model_name__in=("", evaluation.model_name))
    rows = ScoreWatch.objects.filter(of_it, beyond, _may_see(evaluation)).select_related("user__owner")
    watchers = {row.user_id: row for row in rows.order_by("pk")[:MOST_TOLD]}
    environment = evaluation.environment
    having = owners_with_webhooks(row.user.owner.pk for row in watchers.values())
    for _, row in sorted(watchers.items()):  # in order, as `tell` locks them one by one
        side = f"below {row.below:g}" if row.below is not None and mean < row.below else f"above {row.above:g}"
        tell(
            users=[row.user_id],
            kind=NoticeKind.SCORE,
            text=f"{evaluation.model_name} has {mean:.3f} on {environment.owner.slug}/{environment.name}",
            detail=f"The mean reward is {side}, as you asked to be told.",
            url=f"/evaluations/{evaluation.pk}",
        )
        if row.user.owner.pk not in having:
            continue
        score = WebhookScore(
            environment=f"{environment.owner.slug}/{environment.name}",
            model=evaluation.model_name,
            mean=mean,
            below=row.below,
            above=row.above,
            url=f"/evaluations/{evaluation.pk}",
        )
        tell_webhooks_of(WebhookEvent.SCORE_CROSSED, owner_id=row.user.owner.pk, data=score)


def _may_see(evaluation: Evaluation) -> Q:
    """Return a condition on watches: their users may see the evaluation."""
    may = Q(user__is_active=True)
    if not evaluation.visibility == evaluation.environment.visibility == "public":
        members = Membership.objects.filter(owner=evaluation.owner_id)
        may &= Q(user__in=members.values("user_id")) | Q(user__is_superuser=True)
    return may
