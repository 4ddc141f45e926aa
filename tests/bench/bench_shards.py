"""One evaluation on 1, 2, 4 and 8 worker processes: `python -m tests.bench.bench_shards [--seconds 20]`.

A real embedded hub, whose worker has eight slots. The model answers after 50 ms; each process may have two rollouts in
flight, so that one process alone is mostly waiting. Once all of them work, the rollouts that the hub has stored are
counted. Beside the throughput, what all processes of hub and worker and this one, with the model, used of the host's
cores: growth ends where these are full. Exit status 1 when a number of processes for which they are not full gives less
than 0.9 x that number.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.bench_queue import ticks
from tests.e2e import reversing
from tests.e2e.stack import Stack, running_stack, wait_until

PROCESSES = (1, 2, 4, 8)
EACH = 2  # rollouts in flight of one process
LATENCY_S = 0.05
EXAMPLES = 50_000
LEAST, FULL = 0.9, 0.85  # of linear growth; of the host's cores


class Measured(NamedTuple):
    """`busy`: of the host's cores."""

    rollouts_a_second: float
    busy: float


def main() -> int:
    """Measure each number of processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    settings = {
        "WORKER_SLOTS": '{"build": 1, "eval": 8}',
        "HUB_EVAL_SHARD_ROLLOUTS": str(EACH),
        "HUB_EVAL_SPREAD_S": "1",
    }
    with tempfile.TemporaryDirectory(prefix="bench-shards-") as folder, running_stack(Path(folder), settings) as stack:
        environment = reversing.push_reverse_text(stack)
        model = stack.register(reversing.slow_endpoint(LATENCY_S))
        found = {number: measure(stack, environment, model, number, seconds) for number in PROCESSES}
    alone, good = found[1].rollouts_a_second, True
    for number, (rate, busy) in found.items():
        print(
            f"{number} processes: {rate:.1f} rollouts/s, {rate / alone / number:.2f} x linear, {100 * busy:.0f} % of"
            f" {os.cpu_count()} cores",
            flush=True,
        )
        good = good and (busy > FULL or rate / alone >= LEAST * number)
    return 0 if good else 1


def measure(stack: Stack, environment: str, model: str, number: int, seconds: float) -> Measured:
    """One evaluation, ended when it has been watched long enough."""
    view = reversing.start(
        stack,
        environment,
        model,
        num_examples=-1,
        rollouts_per_example=1,
        env_args={"num_eval": EXAMPLES, "num_train": 1},
        concurrency=EACH * number,
    )
    with stack.client() as hub:

        def working() -> bool:
            shards = hub.evaluations.shards(view.id).shards
            return len([shard for shard in shards if shard.in_flight == EACH]) == number

        wait_until(working, 120, lambda: f"not all at work: {hub.evaluations.shards(view.id)}\n{stack.log_tail()}")
        time.sleep(5)  # segments are sent every two seconds
        before, began = used(stack), time.monotonic()
        stored = hub.evaluations.get(view.id).summary.stored
        time.sleep(seconds)
        stored = hub.evaluations.get(view.id).summary.stored - stored
        passed = time.monotonic() - began
        busy = (used(stack) - before) / passed / (os.cpu_count() or 1)
        hub.runs.cancel(view.run_id or "")
    stack.finished(view.id)
    return Measured(stored / passed, busy)


def used(stack: Stack) -> float:
    """Seconds of CPU of all that takes part, so far; only processes that live."""
    own = sum(os.times()[:2])
    return own + sum(ticks(stack).values()) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
