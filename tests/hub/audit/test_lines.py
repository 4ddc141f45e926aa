"""The page of the log: what ids and names stand for, with links to it, for the same queries however long it is."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hub.accounts.models import Owner, User
from hub.accounts.services.teams import create_team
from hub.audit.lines import Line, lines_of
from hub.audit.models import AuditEntry
from hub.evals.models import Evaluation
from hub.registry.models import Environment
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted
from tests.factories.training_runs import create_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def _log(user: User, action: str, subject: str) -> None:
    own = Owner.objects.get(user=user)
    AuditEntry.objects.create(
        actor=user.username, owner_id=own.pk, owner_slug=own.slug, action=action, subject=subject, address="::1"
    )


def _shown(line: Line) -> list[tuple[str, str]]:
    return [(part.text, part.url) for part in line.subject]


def test_ids_are_shown_as_names_with_links_to_what_is_still_there(ada: User) -> None:
    evaluation, training, gone = create_hosted(ada), create_run(ada), uuid4()
    create_team(user=ada, slug="acme")
    environment = f"ada/{evaluation.environment.name}"
    for action, subject in (
        ("started an evaluation", f"{evaluation.pk}"),
        ("stopped a training run", f"{training.pk}"),
        ("cancelled a run", f"{evaluation.run_id}"),
        ("deleted an evaluation", f"{gone}"),
        ("pushed a version", f"{environment}@0.1.0"),
        ("set a secret", environment),
        ("added a member to a team", "acme ada"),
        ("labelled a rollout", f"{evaluation.pk} 3 0 <b>"),
    ):
        _log(ada, action, subject)
    client = Client()
    client.force_login(ada)
    page = client.get("/settings/audit")
    found = [_shown(line) for line in reversed(page.context["lines"])]
    named = (f"{evaluation.model_name} on {environment}", f"/evaluations/{evaluation.pk}")
    assert found == [
        [named],
        [(training.name or f"training of {training.model_name}", f"/training/{training.pk}")],
        [("eval run", f"/runs/{evaluation.run_id}")],
        [(str(gone), "")],
        [(f"{environment}@0.1.0", f"/environments/{environment}")],
        [(environment, "")],
        [("acme", "/acme"), ("ada", "/ada")],
        [named, ("3", ""), ("0", ""), ("<b>", "")],
    ]
    html = page.content.decode()
    assert f'title="{evaluation.pk}">' in html
    assert '<b><a href="/ada">ada</a></b>' in html
    assert "&lt;b&gt;" in html


def test_nobody_reads_the_name_of_what_is_hidden(ada: User) -> None:
    hidden = create_hosted(make_user("mallory"))
    _log(ada, "started an evaluation", str(hidden.pk))
    _log(ada, "pushed a version", f"mallory/{hidden.environment.name}")
    Environment.objects.update(visibility="private")
    assert [_shown(line)[0][1] for line in lines_of(ada, list(AuditEntry.objects.all()))] == ["", ""]


def test_a_long_page_costs_no_more_queries_than_a_short_one(ada: User) -> None:
    evaluation = create_hosted(ada)
    counts = []
    for more in (1, 15):
        for _ in range(more):
            _log(ada, "started an evaluation", str(create_hosted(ada, env_args={"n": more}).pk))
            _log(ada, "pushed a version", f"ada/{evaluation.environment.name}")
        with CaptureQueriesContext(connection) as asked:
            lines = lines_of(ada, list(AuditEntry.objects.all()))
        counts.append(len(asked))
    assert len(lines) == 32
    assert counts[0] == counts[1]
    assert Evaluation.objects.count() > 15
