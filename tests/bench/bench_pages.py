"""Is every page quick on a full hub? `python -m tests.bench.bench_pages` (needs Postgres; minutes).

A throw-away database of TEST_DATABASE_URL with 100,000 environments, one evaluation of 1,000,000 rollouts, 20,000
evaluations, 900,000 entries of the audit log (10,000 a day), and the showcase whose pages all tests visit; one rollout
has 5,000 turns and 20 MB. Each page is asked for in-process as its owner, with the middleware of a real request. Prints
the 95th percentile of the server's time, the queries and the compressed size; exit status 1 where the time is over 100
ms, or the first view over 120 KB. What else runs on the machine is in these times: the median tells it from the page.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

os.environ["TEST_BACKEND"] = "services"
import django

import tests.backends  # noqa: F401  sets HUB_* before Django reads its settings

django.setup()

from django.apps import apps  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from hub.accounts.models import User  # noqa: E402
from hub.evals.models import Evaluation  # noqa: E402
from hub.evals.standings.cards import refresh_cards  # noqa: E402
from tests.bench.bench_lists import (  # noqa: E402
    MANY_ENVIRONMENTS,
    MANY_ROLLOUTS,
    SEED_ENVIRONMENTS,
    execute,
    seed_rollouts,
)
from tests.factories.accounts import make_user  # noqa: E402
from tests.factories.evals import create_hosted, make_record, start, store  # noqa: E402
from tests.factories.training_showcase import make_training_showcase  # noqa: E402
from tests.hub.training.addresses import NAMES as TRAINING  # noqa: E402
from tests.hub.training.addresses import address as training_address  # noqa: E402
from tests.hub.web.addresses import NAMES, address  # noqa: E402
from tests.hub.web.showcase import make_showcase  # noqa: E402

REPEATS, MOST_MS, MOST_BYTES = 40, 100.0, 120_000
TURNS, TURN_BYTES = 5_000, 4_000
AUDIT_ROWS, EVALUATIONS = 900_000, 20_000

SEED_AUDIT = """
INSERT INTO audit_auditentry (id, actor, owner_id, owner_slug, action, subject, address, token_prefix, request_id,
                              created_at)
SELECT gen_random_uuid(), 'user-' || n %% 20, (SELECT id FROM accounts_owner ORDER BY slug OFFSET n %% 20 LIMIT 1), 'x',
       'pushed a version', 'x/env-' || n, '10.0.0.1', '', '', now() - n * interval '9 seconds'
FROM generate_series(1, %s::int) AS n
"""
SEED_EVALUATIONS = """
INSERT INTO evals_evaluation (id, owner_id, environment_id, version_id, model_name, name, source, state, visibility,
                              config, planned, work, aggregate, board, fingerprint, push_format, push_metadata,
                              created_by_id, created_at, finished_at)
SELECT gen_random_uuid(), owner_id, environment_id, version_id, 'model-' || n %% 30, name, source, 'succeeded',
       visibility, config, planned, work, aggregate, board, '', '', push_metadata, created_by_id, now(), now()
FROM evals_evaluation, generate_series(1, %s::int) AS n WHERE id = %s
"""


def seed() -> tuple[Client, dict[str, str]]:
    """The owner's client, and the address of each page by name."""
    showcase = make_showcase(examples=6)
    user = showcase.user
    for _ in range(19):
        make_user()
    training = make_training_showcase(user, steps=30, of=40)
    execute(SEED_ENVIRONMENTS, MANY_ENVIRONMENTS)
    execute("UPDATE registry_environment SET card_stale = false WHERE name LIKE 'env-%%'")
    large = seed_rollouts(user, MANY_ROLLOUTS)
    execute(SEED_AUDIT, AUDIT_ROWS)
    execute(SEED_EVALUATIONS, EVALUATIONS, showcase.ended.pk)
    import_module("hub.evals.migrations.0014_fill_contenders").fill(apps, None)
    long = f"/evaluations/{long_rollout(user).pk}/rollouts/0/0"
    while refresh_cards():
        pass
    execute("VACUUM ANALYZE")
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(user)
    gc.collect()
    gc.freeze()  # as the hub does when it has started: collections of all that is loaded are not a page's
    middle = f"/evaluations/{large.pk}"
    pages = {name: address(showcase, name) for name in NAMES}
    pages |= {f"training {name}": training_address(training, name) for name in TRAINING}
    pages |= {
        "environments, search": "/environments?search=env-777",
        "environments, stars": "/environments?sort=stars",
        "environments, a kind": "/environments?kind=tools",
        "a million rollouts": middle,
        "a million, by reward": f"{middle}?sort=reward",
        "a million, failed": f"{middle}?outcome=failed",
        "a million, by example": f"{middle}?show=examples",
        "a million, mixed": f"{middle}?show=mixed",
        "a million, suspicious": f"{middle}?show=odd",
        "20 MB, first view": long,
        "20 MB, turn 4,000": f"{long}?at=4000",
        "20 MB, search": f"{long}?q=said+4321",
    }
    return client, pages


def long_rollout(user: User) -> Evaluation:
    """An evaluation with one rollout of many turns."""
    made = create_hosted(user, num_examples=1, rollouts_per_example=1)
    start(made)
    words = "lorem ipsum dolor sit amet " * (TURN_BYTES // 27)
    said = [{"role": "assistant", "content": f"said {number}. {words}"} for number in range(TURNS)]
    store(made, [make_record(completion=said)])
    return made


@dataclass
class Cost:
    """Of a page. Times in ms; size in bytes, compressed."""

    p95: float
    median: float
    queries: int
    size: int


def measure(client: Client, path: str) -> Cost:
    """Ask for a page again and again; the first time warms what is kept."""
    asked: list[str] = []

    def count(execute: Any, sql: str, *more: Any) -> Any:
        asked.append(sql)
        return execute(sql, *more)

    client.get(path)
    with connection.execute_wrapper(count):
        answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        client.get(path)
        times.append((time.perf_counter() - started) * 1000)
    parts = statistics.quantiles(times, n=20)
    return Cost(parts[-1], parts[9], len(asked), len(answer.getvalue()))


def main() -> int:
    """Seed, measure, drop."""
    setup_test_environment()
    home = str(connection.settings_dict["NAME"])
    connection.settings_dict["TEST"]["NAME"] = f"bench_hub_{os.getpid()}_pages"
    connection.creation.create_test_db(verbosity=0, serialize=False)
    missed = 0
    try:
        client, pages = seed()
        print(f"{'page':34} {'p95':>9} {'median':>9} {'queries':>8} {'KB':>6}", flush=True)
        for name, path in pages.items():
            cost = measure(client, path)
            bad = cost.p95 > MOST_MS or cost.size > MOST_BYTES
            missed += bad
            told = f"{cost.p95:6.1f} ms {cost.median:6.1f} ms {cost.queries:8} {cost.size / 1000:6.1f}"
            print(f"{name:34} {told}{'  <-- too much' if bad else ''}", flush=True)
    finally:
        connection.creation.destroy_test_db(home, verbosity=0)
    print(f"{missed} of {len(pages)} pages miss the limit" if missed else "all within the limits")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
