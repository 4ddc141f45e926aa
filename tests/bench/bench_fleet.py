"""What do workers cost a hub? `python -m tests.bench.bench_fleet [--threads 2]` (needs Postgres).

Simulated workers (tests/fleet.py) call in-process what the API calls for them, in a throw-away database of
TEST_DATABASE_URL: 10, 100 and 1,000 of them, the last once more with 1,000,000 ended runs. Prints the median and the
95th percentile of each call and how many the machine does in a second. Exit status 1 when a beat or a heartbeat among
a thousand workers and a million runs costs more than twice (and 1 ms more than) what it costs among ten.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

os.environ["TEST_BACKEND"] = "services"
import django

import tests.backends  # noqa: F401  sets HUB_* before Django reads its settings

django.setup()

from django.db import connection, connections  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402
from envhub.protocol.runs import RunKind  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from hub.runs import kinds  # noqa: E402
from tests.factories.accounts import make_user  # noqa: E402
from tests.factories.evals import create_hosted, start  # noqa: E402
from tests.factories.runs import hold_run, make_run  # noqa: E402
from tests.fakes.reporter import Reporter  # noqa: E402
from tests.fleet import Fleet  # noqa: E402

SECONDS, WAITING = 8.0, 100_000
SIZES = ((10, 0), (100, 0), (1000, 0), (1000, 1_000_000))
TOLERANCE, NOISE_MS = 2.0, 1.0


class Nothing(BaseModel):
    """The payload of a run that does nothing."""


def main() -> int:
    """Measure each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    setup_test_environment()
    connections["default"].creation.create_test_db(verbosity=0)
    kinds._SPECS[RunKind.EVAL] = kinds.RunKindSpec(RunKind.EVAL, "eval", payload=lambda run: Nothing())
    try:
        medians = [measure(workers, history, threads) for workers, history in SIZES]
        report_ms()
    finally:
        connections["default"].creation.destroy_test_db("postgres", verbosity=0)
    slow = [
        name
        for name in ("beat", "heartbeat")
        if medians[-1][name] > max(TOLERANCE * medians[0][name], medians[0][name] + NOISE_MS)
    ]
    print("flat from 10 to 1,000 workers" if not slow else f"grew: {', '.join(slow)}")
    return 1 if slow else 0


def measure(workers: int, history: int, threads: int) -> dict[str, float]:
    """Prints a block; the median of each call in ms."""
    fleet = Fleet(workers)
    fleet.join()
    fleet.ended(history)
    fleet.submit(WAITING)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    end = time.monotonic() + SECONDS
    seconds = fleet.work(threads, until=lambda: bool(fleet.errors) or time.monotonic() > end)
    if fleet.errors:
        raise fleet.errors[0]
    assert set(fleet.claims.values()) == {1}, "a run was given twice"
    print(f"{workers} workers, {history} ended runs, {threads} threads:")
    for name, taken in fleet.timings.items():
        high = statistics.quantiles(taken, n=20)[-1]
        print(
            f"  {name:9} p50 {1000 * statistics.median(taken):5.1f} ms  p95 {1000 * high:5.1f} ms"
            f"  {len(taken) / seconds:7.0f} a second"
        )
    print(f"  a beat as a whole request, handled in-process: p50 {request_ms(fleet):.1f} ms")
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE runs_run, runs_worker CASCADE")
    return {name: 1000 * statistics.median(taken) for name, taken in fleet.timings.items()}


def request_ms(fleet: Fleet) -> float:
    """The median of beats that bring nothing, with authentication, routing and JSON."""
    client, taken = Client(), []
    for row in fleet.rows[:10] * 30:
        began = time.perf_counter()
        reply = client.post(
            f"/api/v1/workers/{row.pk}/beat",
            {"room": {"eval": 0}},
            content_type="application/json",
            headers={"Authorization": f"Bearer {fleet.secret}"},
        )
        taken.append(time.perf_counter() - began)
        assert reply.status_code == 200, reply.content
    return 1000 * statistics.median(taken)


def report_ms() -> None:
    """Prints the median of reports of an evaluation's own run and of its parts, eight of them at work."""
    evaluation = create_hosted(make_user(), num_examples=-1, concurrency=1024)
    start(evaluation)
    assert evaluation.run is not None
    runs = [evaluation.run, *(make_run(owner=evaluation.owner, parent=evaluation.run) for _ in range(7))]
    for part in runs[1:]:
        hold_run(part)
    reporters = [Reporter(evaluation, run, 1_000_000, rate=10.0) for run in runs]
    taken: dict[str, list[float]] = {"own run": [], "parts": []}
    for _ in range(30):
        for reporter in reporters:
            began = time.perf_counter()
            reporter.report(wants=0 if reporter.held else 1000)
            taken["own run" if reporter is reporters[0] else "parts"].append(time.perf_counter() - began)
    told = ", ".join(f"{name} {1000 * statistics.median(each):.1f} ms" for name, each in taken.items())
    print(f"a report of a spread evaluation, one thread: p50 {told}")


if __name__ == "__main__":
    sys.exit(main())
