"""From submission to a run's first work, and what idling costs: `python -m tests.bench.bench_queue [--runs 30]`.

A real embedded hub with its worker, then the same on a Redis of its own where redis-server is installed. Each run is
an evaluation of one rollout with an endpoint that answers at once; it is timed from its row to its start, by the hub's
clock. Then everything idles for half a minute. Exit status 1 when a median is over 150 ms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from infra.demo.processes import processes_of
from tests.e2e import reversing
from tests.e2e.stack import Stack, running_stack
from tests.fakes.redis_server import RedisServer

LIMIT_MS = 150.0
IDLE_S = 30.0


def main() -> int:
    """Measure on each broker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="bench-queue-") as folder:
        medians = [measure(Path(folder) / "folder", "", runs)]
        if shutil.which("redis-server"):
            with RedisServer(Path(folder) / "redis-server") as redis:
                medians.append(measure(Path(folder) / "redis", redis.url, runs))
    return 0 if max(medians) <= LIMIT_MS else 1


def measure(data: Path, broker_url: str, runs: int) -> float:
    """Prints a line; gives the median in ms."""
    with running_stack(data, {"HUB_BROKER_URL": broker_url, "HUB_WORKER_BEAT_SECONDS": "2"}) as stack:
        environment = reversing.push_reverse_text(stack)
        model = stack.register(reversing.slow_endpoint(0.0))
        waits = sorted(timed(stack, environment, model) for _ in range(runs))
        cpu, processes = idle(stack)
    median, high = statistics.median(waits), waits[int(0.95 * len(waits))]
    print(
        f"{'Redis' if broker_url else 'folder'}: submission to start p50 {median:.0f} ms, p95 {high:.0f} ms (limit"
        f" {LIMIT_MS:.0f}); idle {100 * cpu:.2f} % of a core in {processes} processes of hub and worker",
        flush=True,
    )
    return median


def timed(stack: Stack, environment: str, model: str) -> float:
    """One run, ms from its row to its start."""
    evaluation = reversing.start(stack, environment, model, num_examples=1, rollouts_per_example=1)
    stack.finished(evaluation.id)
    with stack.client() as hub:
        run = hub.runs.get(evaluation.run_id or "")
    assert run.started_at is not None
    return 1000 * (run.started_at - run.created_at).total_seconds()


def idle(stack: Stack) -> tuple[float, int]:
    """Cores used by hub and worker while nothing happens, and how many processes they are."""
    time.sleep(5)
    before, began = ticks(stack), time.monotonic()
    time.sleep(IDLE_S)
    after, seconds = ticks(stack), time.monotonic() - began
    used = sum(after[pid] - before[pid] for pid in after if pid in before)
    return used / os.sysconf("SC_CLK_TCK") / seconds, len(after)


def ticks(stack: Stack) -> dict[int, int]:
    """Clock ticks of each process."""
    found = {}
    for process in processes_of(stack.data):
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        found[process.pid] = int(fields[11]) + int(fields[12])
    return found


if __name__ == "__main__":
    sys.exit(main())
