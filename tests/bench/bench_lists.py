"""Do list pages cost the same however much there is? `python -m tests.bench.bench_lists` (needs Postgres).

Times API lists in-process on two throw-away databases of TEST_DATABASE_URL: one of 1,000 environments and an evaluation
of 1,000 rollouts, one of 100,000 and of 1,000,000. They take turns, and the best of many requests counts, so that what
else runs on the machine matters little. Prints times, ratio and queries; exit status 1 when a list got more than 20 %
(and 1 ms) slower or needs more than 12 queries.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from hashlib import md5

os.environ["TEST_BACKEND"] = "services"
import django

import tests.backends  # noqa: F401  sets HUB_* before Django reads its settings

django.setup()

from django.db import connection, connections  # noqa: E402
from django.db.backends.base.base import BaseDatabaseWrapper  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext, setup_test_environment  # noqa: E402

from hub.accounts.models import User  # noqa: E402
from hub.evals.models import Evaluation, RolloutIndex, Segment  # noqa: E402
from hub.registry.models import Environment  # noqa: E402
from tests.factories.accounts import bearer, make_token, make_user  # noqa: E402
from tests.factories.evals import create_hosted  # noqa: E402
from tests.factories.storage import make_blob  # noqa: E402

REPEATS = 60
SMALL, MANY_ENVIRONMENTS, MANY_ROLLOUTS = 1_000, 100_000, 1_000_000
TOLERANCE, NOISE_MS, MOST_QUERIES = 1.2, 1.0, 12

SEED_ENVIRONMENTS = """
INSERT INTO registry_environment (id, owner_id, name, description, visibility, tags, evaluations, search_text,
                                  created_at, updated_at)
SELECT gen_random_uuid(), (SELECT id FROM accounts_owner ORDER BY slug OFFSET n %% 20 LIMIT 1), 'env-' || n,
       md5(n::text), CASE WHEN n %% 10 = 0 THEN 'private' ELSE 'public' END, '[]', 0,
       'user-' || n %% 20 || '/env-' || n || ' ' || md5(n::text), now(), now()
FROM generate_series(1, %s::int) AS n
"""
SEED_ROLLOUTS = """
INSERT INTO evals_rolloutindex (evaluation_id, example, rollout, outcome, failure_kind, failure_message, reward,
                                metrics, turns, prompt_tokens, completion_tokens, judge_prompt_tokens,
                                judge_completion_tokens, duration_s, segment_id, row_group, "row")
SELECT %s, n / 8, n %% 8, CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'ok' END,
       CASE WHEN n %% 100 = 0 THEN 'policy' ELSE '' END, '', CASE WHEN n %% 100 = 0 THEN NULL ELSE (n %% 97) / 96.0 END,
       '{"exact": 1.0}', 1, 100, 50, 0, 0, 1.5, %s, 0, 0
FROM generate_series(0, %s::int - 1) AS n
"""


@dataclass
class Timing:
    """One list in one database."""

    milliseconds: float = float("inf")
    queries: int = 0


@dataclass
class Database:
    """A migrated and seeded database, and the lists to time in it."""

    name: str
    headers: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    wrapper: BaseDatabaseWrapper | None = None

    def use(self) -> None:
        """Send every following query here, over this database's own connection."""
        if self.wrapper is None:
            self.wrapper = connections.create_connection("default")
            self.wrapper.settings_dict = {**self.wrapper.settings_dict, "NAME": self.name}
        connections["default"] = self.wrapper


def create(label: str, environments: int, rollouts: int) -> Database:
    """A database of this size."""
    connection.settings_dict["TEST"]["NAME"] = f"bench_hub_{os.getpid()}_{label}"
    made = Database(connection.creation.create_test_db(verbosity=0, serialize=False))
    user = make_user("bench")
    for _ in range(19):
        make_user()
    execute(SEED_ENVIRONMENTS, environments)
    evaluation = seed_rollouts(user, rollouts)
    execute("VACUUM ANALYZE")
    made.headers = bearer(make_token(user))
    made.paths = environment_paths() | rollout_paths(evaluation)
    made.timings = {label: Timing() for label in made.paths}
    return made


def execute(sql: str, *values: object) -> None:
    """One statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def measure(databases: list[Database]) -> None:
    """Time every list: one request to each database in turns, so that both meet the same load of the machine."""
    client = Client()
    for label in databases[0].paths:
        for database in databases:
            database.use()
            with CaptureQueriesContext(connection) as queries:
                assert client.get(database.paths[label], headers=database.headers).status_code == 200, label
            database.timings[label].queries = len(queries)
        for _ in range(REPEATS):
            for database in databases:
                database.use()
                started = time.perf_counter()
                client.get(database.paths[label], headers=database.headers)
                timing = database.timings[label]
                timing.milliseconds = min(timing.milliseconds, (time.perf_counter() - started) * 1000)


def environment_paths() -> dict[str, str]:
    """Label -> path."""
    middle = Environment.objects.order_by("-pk")[Environment.objects.count() // 2].pk
    return {
        "environments": "/api/v1/environments",
        "environments, deep page": f"/api/v1/environments?before={middle}",
        "environments of an owner": "/api/v1/environments?owner=bench",
        "environments, search": f"/api/v1/environments?search={md5(b'777').hexdigest()[:8]}",
    }


def rollout_paths(evaluation: Evaluation) -> dict[str, str]:
    """Label -> path."""
    base = f"/api/v1/evaluations/{evaluation.pk}"
    rows = RolloutIndex.objects.filter(evaluation=evaluation)
    count = rows.count()
    middle = rows.order_by("-pk")[count // 2].pk
    by_reward = rows.filter(reward__isnull=False).order_by("reward", "pk")[count // 2]
    example = count // 16
    return {
        "evaluation": base,
        "rollouts, newest": f"{base}/rollouts",
        "rollouts, newest, deep page": f"{base}/rollouts?cursor={middle}",
        "rollouts, reward": f"{base}/rollouts?sort=reward",
        "rollouts, -reward, deep page": f"{base}/rollouts?sort=-reward&cursor={by_reward.reward!r},{by_reward.pk}",
        "rollouts, example, deep page": f"{base}/rollouts?sort=example&cursor={example},3",
        "rollouts, failed by reward": f"{base}/rollouts?outcome=failed&sort=reward",
        "rollouts, policy failures": f"{base}/rollouts?outcome=policy",
        "rollouts, reward at least 0.99": f"{base}/rollouts?min_reward=0.99&sort=-reward",
        "rollouts of one example": f"{base}/rollouts?example={example}",
        "evaluations": "/api/v1/evaluations",
    }


def seed_rollouts(user: User, count: int) -> Evaluation:
    """An evaluation with `count` rows in its index."""
    evaluation = create_hosted(user, rollouts_per_example=8)
    segment = Segment.objects.create(evaluation=evaluation, blob=make_blob())
    execute(SEED_ROLLOUTS, evaluation.pk, segment.pk, count)
    return evaluation


def report(small: Database, large: Database) -> bool:
    """Print a table; whether every list kept its time."""
    print(f"{'list':32} {'small':>10} {'large':>10}  ratio  queries")
    fine = True
    for label, first in small.timings.items():
        second = large.timings[label]
        ratio = second.milliseconds / first.milliseconds
        slower = ratio > TOLERANCE and second.milliseconds - first.milliseconds > NOISE_MS
        bad = slower or second.queries > MOST_QUERIES
        fine &= not bad
        times = f"{first.milliseconds:7.1f} ms {second.milliseconds:7.1f} ms"
        print(f"{label:32} {times}  {ratio:5.2f}  {second.queries:7}{'  <-- too much' if bad else ''}")
    return fine


def main() -> int:
    """Seed both, measure them in turns, drop them."""
    setup_test_environment()
    home = str(connection.settings_dict["NAME"])
    databases = []
    try:
        databases.append(create("small", SMALL, SMALL))
        databases.append(create("large", MANY_ENVIRONMENTS, MANY_ROLLOUTS))
        measure(databases)
        return 0 if report(*databases) else 1
    finally:
        for database in databases:
            database.use()
            connection.creation.destroy_test_db(home, verbosity=0)


if __name__ == "__main__":
    sys.exit(main())
