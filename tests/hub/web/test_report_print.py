"""Reports are two pages in print, however much there is to say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from envhub.protocol.runs import FailureKind, RunState

from hub.accounts.models import User
from hub.evals.models import Evaluation
from hub.runs.models import Run
from hub.training.services import report_step
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_failure, make_record, start, store
from tests.factories.training_runs import create_run, step_report
from tests.factories.training_runs import start as start_training
from tests.hub.web.browser import Look, LookAt

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LONG = "a rather long question about nothing in particular, " * 8


def _much(user: User, number: int) -> Evaluation:
    """Long arguments, many metrics, every kind of failure."""
    arguments = {f"argument_{place}": LONG for place in range(12)}
    found = create_hosted(
        user,
        num_examples=14,
        rollouts_per_example=8,
        env_args=arguments,
        sampling={"temperature": number, "stop": [LONG]},
    )
    start(found)
    prompt = [{"role": "user", "content": LONG}]
    metrics = {f"metric_with_a_long_name_{place}": place / 7 for place in range(20)}
    rewards = [(example, rollout, ((example + number) % 7) / 7) for example in range(10) for rollout in range(2)]
    store(found, [make_record(*one, prompt=prompt, metrics=metrics) for one in rewards])
    store(found, [make_failure(10 + place, 0, kind) for place, kind in enumerate([*FailureKind][:4])])
    Evaluation.objects.filter(pk=found.pk).update(state=RunState.SUCCEEDED.value, visibility="public")
    return found


def _pages(look: Look, path: str, paper: str) -> int:
    look.open(path)
    return len(re.findall(rb"/Type /Page\b(?!s)", look.page.pdf(format=paper, print_background=True)))


def test_reports_are_two_pages_of_a4_and_of_letter(live_server: Any, look_at: LookAt) -> None:
    ada = make_user("ada")
    evaluations = [_much(ada, number) for number in range(8)]
    training = create_run(ada)
    start_training(training)
    for number in (1, 2, 3):
        report_step(training=training, report=step_report(number), guard=lambda: Run.objects.get(pk=training.run_id))
    type(training).objects.update(visibility="public")
    sides = "&".join(f"{'b' if place else 'a'}={one.pk}" for place, one in enumerate(evaluations))
    paths = (
        f"/evaluations/{evaluations[0].pk}/report",
        f"/evaluations/compare/report?{sides}",
        f"/evaluations/compare/report?a={evaluations[0].pk}&b={evaluations[1].pk}",
        f"/training/{training.pk}/report",
    )
    with look_at(live_server.url) as look:
        found = {path: [_pages(look, path, paper) for paper in ("A4", "Letter")] for path in paths}
        assert found == {path: [2, 2] for path in paths}
        assert look.complaints == []
