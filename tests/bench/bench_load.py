"""What does one installation bear? `python -m tests.bench.bench_load [--minutes 1] [--mlflow .venv-mlflow/bin/python]`

Own Postgres, Redis and S3 server (moto), two hub processes behind nginx with infra/nginx.conf, two idle workers, all on
this machine with the callers: 200 pushes at once and 20 of one package; index pages against a static file; rollouts at
`--rate` a second by simulated workers (tests/bench/load/ingest.py) while somebody reads pages; as many rollouts as fit,
and the same into MLflow's tracking server (`uv venv` and `uv pip install mlflow psycopg2-binary`), once as seven
metrics, which keep nothing of what was said, and once as traces with their tokens, which is the work that the hub does
(the limit). Exit status 1 when a call failed, a rollout or a byte is missing, or a ratio is below its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tests.bench.load.cpu import used_by
from tests.bench.load.ingest import Load, Reader
from tests.bench.load.mlflow_server import as_numbers, as_traces, log_rollouts, tracking_server
from tests.bench.load.pages import compare
from tests.bench.load.pushes import push_all
from tests.bench.load.site import USER, Site, load_site
from tests.bench.load.viewers import Viewers
from tests.e2e.fault_work import check_blobs

LEAST_OF_MLFLOW = 5.0
PHASES = ("pushes", "pages", "ingest", "most")
COUNT = "SELECT evaluation_id::text, count(*), count(DISTINCT (example, rollout)) FROM evals_rolloutindex GROUP BY 1"


def main() -> int:
    """Each phase in turn, on one installation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="of rollouts at --rate")
    parser.add_argument("--rate", type=float, default=500.0, help="rollouts a second")
    parser.add_argument("--workers", type=int, default=8, help="simulated")
    parser.add_argument("--viewers", type=int, default=0, help="of the page of an evaluation that gets rollouts")
    parser.add_argument("--pushes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="of rollouts as fast as they go, and of MLflow")
    parser.add_argument("--mlflow", type=Path, help="an interpreter with mlflow and psycopg2")
    parser.add_argument("--phases", nargs="*", choices=PHASES, default=PHASES)
    options = parser.parse_args()
    fine = True
    with tempfile.TemporaryDirectory(prefix="bench-load-") as name, load_site(Path(name)) as site:
        folder = Path(name)
        evaluations = site.seed(2 * options.workers)
        if "pushes" in options.phases:
            fine &= push_all(site, folder, options.pushes, 20)
        if "pages" in options.phases:
            fine &= compare(site)
        if "ingest" in options.phases:
            fine &= asyncio.run(ingest(site, folder, options, evaluations[0]))
        if "most" in options.phases:
            fine &= asyncio.run(most(site, folder, options))
    print("all within their limits" if fine else "something was missed")
    return 0 if fine else 1


async def ingest(site: Site, folder: Path, options: argparse.Namespace, shown: str) -> bool:
    """At a rate, with a reader beside."""
    load = Load(site.url, worker_token(site), options.workers, options.rate, 60 * options.minutes, folder)
    reader = Reader(site.url, pages(shown))
    viewers = Viewers(site.url, f"/evaluations/{shown}", options.viewers)
    before = site.cpu()
    others = [asyncio.create_task(reader.run()), asyncio.create_task(viewers.run())]
    await load.run()
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    total, lasted = load.sent.total(), load.lasted
    print(f"{total} rollouts in {lasted:.0f} s by {load.workers} workers: {total / lasted:.0f} a second")
    print(f"  each {load.bytes / total:.0f} bytes of the object storage; {per_rollout(before, site.cpu(), total)}")
    load.timings.print()
    print(" pages meanwhile")
    reader.timings.print()
    if options.viewers:
        print(f" {options.viewers} viewers of a live page")
        viewers.timings.print()
    failed = sum(one.timings.failures.total() for one in (load, reader, viewers))
    behind = total < 0.95 * options.rate * load.lasted
    return not failed and not behind and is_whole(site, load)


async def most(site: Site, folder: Path, options: argparse.Namespace) -> bool:
    """As many as go, here and with MLflow."""
    load = Load(site.url, worker_token(site), options.workers, 0, options.seconds, folder)
    before = site.cpu()
    await load.run()
    total = load.sent.total()
    ours = total / load.lasted
    print(
        f"as fast as {load.workers} workers go: {ours:.0f} rollouts a second; {per_rollout(before, site.cpu(), total)}"
    )
    load.timings.print()
    fine = not load.timings.failures and is_whole(site, load)
    if options.mlflow is None:
        return fine
    ratios = {}
    with tracking_server(options.mlflow, site.postgres, folder) as (url, pid):
        for log in (as_numbers, as_traces):
            before = {"MLflow": used_by([pid]), "Postgres": used_by([site.postgres.pid])}
            theirs, timings = await log_rollouts(url, options.workers, options.seconds, log)
            after = {"MLflow": used_by([pid]), "Postgres": used_by([site.postgres.pid])}
            timings.print()
            cost = per_rollout(before, after, theirs * options.seconds)
            print(f"MLflow {log.__name__.replace('_', ' ')}: {theirs:.1f} rollouts a second; {cost}")
            ratios[log] = ours / theirs
            print(f"the hub takes {ratios[log]:.1f} times as many")
    return fine and ratios[as_traces] >= LEAST_OF_MLFLOW


def per_rollout(before: dict[str, float], after: dict[str, float], rollouts: float) -> str:
    """What each cost of the CPU, by part."""
    return ", ".join(f"{name} {1000 * (after[name] - before[name]) / rollouts:.2f} ms of CPU each" for name in before)


def worker_token(site: Site) -> str:
    """For the simulated workers."""
    return site.hub.manage("create_worker_token", f"simulated-{time.monotonic_ns()}")


def pages(evaluation: str) -> dict[str, str]:
    """What the reader asks for: all of it is public."""
    api = f"/api/v1/evaluations/{evaluation}"
    return {
        "page of the evaluation": f"/evaluations/{evaluation}",
        "page of the environment": f"/environments/{USER}/tiny-env",
        "API: evaluations": "/api/v1/evaluations",
        "API: evaluation": api,
        "API: rollouts, newest": f"{api}/rollouts",
        "API: rollouts by reward": f"{api}/rollouts?sort=-reward",
        "index page": f"/index/{USER}/simple/tiny-env/",
    }


def is_whole(site: Site, load: Load) -> bool:
    """Whether every rollout that was sent is there once, and every blob has its bytes."""
    with psycopg.connect(site.postgres.url) as rows:
        stored = {key: (count, distinct) for key, count, distinct in rows.execute(COUNT).fetchall()}
    missing = {key: (sent, stored.get(key)) for key, sent in load.sent.items() if stored.get(key) != (sent, sent)}
    check_blobs(site.storage_url, site.postgres.url)
    print(f" stored: {'every rollout once, every blob with its bytes' if not missing else f'NOT AS SENT: {missing}'}")
    return not missing


if __name__ == "__main__":
    sys.exit(main())
