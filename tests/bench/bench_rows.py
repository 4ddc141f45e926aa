"""Does anything cost more with 10^7 rollouts than with 10^5? `python -m tests.bench.own_postgres bench_rows`

One throw-away database of TEST_DATABASE_URL, filled in steps (`--rows 1e5,1e6,1e7`) with evaluations of 10,000 rollouts
and one of a tenth of all. At each step lists, pages and the storing of a segment of 64 rollouts are timed in-process,
and the database's blocks counted that each looked at. Prints what a rollout takes of the disk, by table and index. Exit
status 1 when something takes twice the time (and 2 ms more) or three times the blocks (and 100 more) in the end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.bench.bench_lists import execute, rollout_paths  # first: it sets Django up

from django.db import connection, connections, transaction  # isort: skip
from django.test import Client
from django.test.utils import setup_test_environment
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.backups.rows.constraints import without_constraints
from hub.evals.models import Evaluation, ExampleScore, RolloutIndex, Segment
from hub.evals.services import add_segment
from hub.registry.models import Environment
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_record, make_segment
from tests.factories.storage import make_blob

USUAL, SHARE, EACH, REPEATS, SEGMENT = 10_000, 10, 8, 30, 64
TIMES, NOISE_MS, BLOCKS, FEW_BLOCKS = 2.0, 2.0, 3, 100
Cost = tuple[float, int]  # seconds, blocks
ROLLOUTS = """
INSERT INTO evals_rolloutindex (evaluation_id, example, rollout, outcome, failure_kind, failure_message, asked,
                                answered, target, reward, metrics, turns, prompt_tokens, completion_tokens,
                                judge_prompt_tokens, judge_completion_tokens, duration_s, segment_id, row_group, "row")
SELECT e.id, n / 8, n %% 8, CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'ok' END,
       CASE WHEN n %% 100 = 0 THEN 'policy' ELSE '' END, '', repeat(md5(n::text), 4), repeat(md5(n::text), 2), 'answer',
       CASE WHEN n %% 100 = 0 THEN NULL ELSE (n %% 97) / 96.0 END, '{"exact": 1.0, "length": 40.0}', 1, 300, 150, 0, 0,
       1.5, %s, n %% 64 / 8, n %% 8
FROM evals_evaluation e, generate_series(%s::int, %s::int - 1) AS n WHERE e.id = ANY(%s)
"""
SCORES = """
INSERT INTO evals_examplescore (evaluation_id, example, example_hash, content_hash, tally)
SELECT e.id, n, md5(n::text) || md5(n::text), md5(n::text) || md5(n::text),
       '{"reward": {"n": 8, "total": 4.0}, "solved": 4, "metrics": {"exact": {"n": 8, "total": 4.0}}}'
FROM evals_evaluation e, generate_series(%s::int / 8, %s::int / 8 - 1) AS n WHERE e.id = ANY(%s)
"""
SIZES = """
SELECT c.relname, pg_relation_size(c.oid) FROM pg_class c
WHERE c.relname IN ('evals_rolloutindex', 'evals_examplescore') OR c.oid IN (SELECT indexrelid FROM pg_index
      WHERE indrelid IN ('evals_rolloutindex'::regclass, 'evals_examplescore'::regclass)) ORDER BY 2 DESC
"""
# Later than any before, as UUIDv7: the planner sees that rows of an evaluation lie together.
NEXT_ID = (
    "lpad(to_hex((1000 * extract(epoch FROM clock_timestamp()))::bigint), 12, '0') || '7' || right(md5(n::text), 19)"
)
LOOKED_AT = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"


def main() -> int:
    """Fill, measure, fill more."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1e5,1e6,1e7")
    sizes = [int(float(text)) for text in parser.parse_args().rows.split(",")]
    setup_test_environment()
    connections["default"].creation.create_test_db(verbosity=0, serialize=False)
    try:
        bench = Bench(make_user("bench"))
        found = [bench.at(size) for size in sizes]
    finally:
        connections["default"].creation.destroy_test_db("postgres", verbosity=0)
    return compare(found[0], found[-1])


class Bench:
    """The filled database. `large` is the evaluation of a tenth of all."""

    def __init__(self, user: User) -> None:
        self.large = create_hosted(user, rollouts_per_example=EACH)
        Environment.objects.update(visibility=Visibility.PUBLIC.value)
        Evaluation.objects.update(visibility=Visibility.PUBLIC.value)  # so that its page needs no session
        self.segment = Segment.objects.create(evaluation=self.large, blob=make_blob())
        self.headers = bearer(make_token(user))
        self.rows, self.of_large = 0, 0
        self.numbers = iter(range(10**6, 10**9))  # examples that nobody else has

    def at(self, rows: int) -> dict[str, Cost]:
        """Fill up to so many, measure, print."""
        began = time.monotonic()
        self._fill(rows)
        print(f"{rows} rollouts (filled in {time.monotonic() - began:.0f} s)", flush=True)
        client, costs = Client(), dict[str, Cost]()
        for name, path in rollout_paths(self.large).items():
            costs[name] = cost_of(lambda path=path: self._get(client, path))  # type: ignore[misc]
        costs["page of the evaluation"] = cost_of(lambda: self._get(client, f"/evaluations/{self.large.pk}"))
        for name, evaluation in (("large", self.large), ("new", create_hosted(self.large.created_by))):
            costs[f"a segment of a {name} evaluation"] = self._storing(evaluation)
        for name, (seconds, blocks) in costs.items():
            print(f"  {name:36} {1000 * seconds:8.1f} ms {blocks:7} blocks")
        print_sizes()
        return costs

    def _get(self, client: Client, path: str) -> None:
        assert client.get(path, headers=self.headers).status_code == 200, path

    def _fill(self, rows: int) -> None:
        large = rows // SHARE
        usual = (rows - large - (self.rows - self.of_large)) // USUAL
        made = copies(self.large, usual)
        tables = [RolloutIndex._meta.db_table, ExampleScore._meta.db_table]
        with transaction.atomic(), without_constraints(connection, tables):  # type: ignore[arg-type]
            for ids, first, stop in (([self.large.pk], self.of_large, large), (made, 0, USUAL)):
                execute(ROLLOUTS, self.segment.pk, first, stop, ids)
                execute(SCORES, first, stop, ids)
        self.rows, self.of_large = rows, large
        execute("VACUUM ANALYZE")

    def _storing(self, evaluation: Evaluation) -> Cost:
        requests = []
        for _ in range(REPEATS):
            records = [make_record(example, n) for example in self._examples() for n in range(EACH)]
            requests.append(make_segment(records))
        left = iter(requests)
        return cost_of(lambda: add_segment(evaluation=evaluation, request=next(left), trusted=True), len(requests) - 1)

    def _examples(self) -> list[int]:
        return [next(self.numbers) for _ in range(SEGMENT // EACH)]


def copies(template: Evaluation, count: int) -> list[object]:
    """More evaluations like it, without a run; their keys."""
    columns = [field.column for field in Evaluation._meta.concrete_fields]
    own = {"id": f"({NEXT_ID})::uuid", "run_id": "NULL"}
    picked = ", ".join(own.get(column, f'"{column}"') for column in columns)
    named = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO evals_evaluation ({named}) SELECT {picked}"
            " FROM evals_evaluation, generate_series(1, %s::int) AS n WHERE id = %s RETURNING id",
            [count, template.pk],
        )
        return [key for (key,) in cursor.fetchall()]


def cost_of(act: Callable[[], object], repeats: int = REPEATS) -> Cost:
    """The least seconds, so that what else runs here matters little, and the blocks that one of them looked at."""
    before, taken = blocks(), []
    act()
    looked_at = blocks() - before
    for _ in range(repeats):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return min(taken), looked_at


def blocks() -> int:
    """Of this database since its beginning, as all sessions have told."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(LOOKED_AT)
        return int(cursor.fetchone()[0])


def print_sizes() -> None:
    """Bytes of the disk for each rollout."""
    count = RolloutIndex.objects.count()
    with connection.cursor() as cursor:
        cursor.execute(SIZES)
        found = cursor.fetchall()
    print(f"  {sum(size for _, size in found) / count:.0f} bytes a rollout in the database:")
    for name, size in found:
        print(f"    {name:46} {size / count:6.1f}")


def compare(few: dict[str, Cost], many: dict[str, Cost]) -> int:
    """1 when something has grown."""
    grown = []
    for name, (seconds, looked_at) in many.items():
        before_s, before = few[name]
        slower = seconds > max(TIMES * before_s, before_s + NOISE_MS / 1000)
        if slower or looked_at > max(BLOCKS * before, before + FEW_BLOCKS):
            grown.append(name)
    print("flat" if not grown else f"grew: {', '.join(grown)}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
