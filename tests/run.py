"""`python -m tests.run`: the suite. The hub's tests run on Postgres and Redis, all others on SQLite and the filesystem
broker; what the two databases do differently is tested on both. Without Postgres and Redis all runs on SQLite.

`python -m tests.run --vllm`: the tests that need vLLM instead. An open port with a failed login is an error; an
unreachable service is skipped, except under CI=true, where nothing runs without it. A few failed tests are run once
more by themselves and named as unstable when they then pass: on a busy machine a time limit says little about the code.
Says what ran.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from tests import backends

HUB = "tests/hub"  # each test on one database where there are two: Postgres, which refuses more, but for these
ON_SQLITE = [  # browsers, whose server is a thread of the test, and long ones that read what others read there
    "tests/hub/accounts/test_passkeys.py",
    "tests/hub/api/test_every_route_as_every_role.py",
    "tests/hub/api/test_metrics_processes.py",
    "tests/hub/api/test_schema.py",
    "tests/hub/backups/test_damage.py",
    "tests/hub/backups/test_keys.py",
    "tests/hub/core/requests/test_csp.py",
    "tests/hub/core/test_request_ids.py",
    "tests/hub/data/test_huggingface.py",
    "tests/hub/data/test_outside_in_boxes.py",
    "tests/hub/evals/starting",
    "tests/hub/evals/test_decoding.py",
    "tests/hub/evals/test_statistics.py",
    "tests/hub/registry/test_hostile_archives.py",
    "tests/hub/registry/test_index_install.py",
    "tests/hub/storage/test_backends.py",
    "tests/hub/storage/test_streaming.py",
    "tests/hub/test_markdown.py",
    "tests/hub/training/charts",
    "tests/hub/training/test_pages.py",
    "tests/hub/training/test_pages_browser.py",
    "tests/hub/training/test_stored_configurations.py",
    "tests/hub/web/documentation",
    "tests/hub/web/test_browser.py",
    "tests/hub/web/test_browser_reader.py",
    "tests/hub/web/test_browser_teams.py",
    "tests/hub/web/test_evaluate_page.py",
    "tests/hub/web/test_evaluation_page.py",
    "tests/hub/web/test_every_page.py",
    "tests/hub/web/test_report_print.py",
    "tests/hub/web/test_sdk_wheel.py",
]
ON_BOTH = [  # what the databases do differently: locks, clocks, text search, JSON, their own catalogs
    "tests/hub/api/test_doctor.py",
    "tests/hub/api/test_metrics.py",
    "tests/hub/backups",
    "tests/hub/core",
    "tests/hub/evals/standings",
    "tests/hub/evals/test_lifecycle.py",
    "tests/hub/evals/test_segments.py",
    "tests/hub/registry/test_environments.py",
    "tests/hub/registry/test_push_races.py",
    "tests/hub/runs",
    "tests/hub/storage",
    "tests/hub/web/test_finding.py",
]
SETTINGS = "tests/test_settings.py"
PRODUCTION = "tests/e2e/test_production.py"  # Postgres, Redis and S3 end to end: kills, installs
PARALLEL = ["-n", "5", "--no-loadscope-reorder", "-p", "tests.scheduling", "--durations", "25"]
QUICK = "not vllm and not matrix"
VLLM = ["-p", "no:randomly", "--durations", "10", "-m", "vllm and not matrix"]  # in order: engines are shared
FEW = 3  # more failures than this are not bad luck
TESTS_FAILED = 1  # pytest's exit status


@dataclass
class Outcome:
    """One pytest run: its exit status and the tests that failed at first and passed by themselves."""

    status: int
    unstable: list[str]

    def __str__(self) -> str:
        """For the summary."""
        if self.status:
            return f"FAILED (exit status {self.status})"
        return "\n    ".join(["passed", *(f"UNSTABLE, passed on its second try: {test}" for test in self.unstable)])


def postgres_problem() -> str | None:
    """Why Postgres cannot be used, or None. Raises psycopg.OperationalError when it refuses the login."""
    try:
        psycopg.connect(backends.DATABASE_URL, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        if "authentication" in str(error) or "password" in str(error) or "does not exist" in str(error):
            raise
        return str(error).strip().splitlines()[0]
    return None


def redis_problem() -> str | None:
    """Why Redis cannot be used, or None. Raises redis.AuthenticationError when it refuses the login."""
    try:
        redis.Redis.from_url(backends.REDIS_URL, socket_connect_timeout=3).ping()
    except redis.AuthenticationError:
        raise
    except (redis.ConnectionError, redis.TimeoutError) as error:
        return str(error)
    return None


def run(backend: str, selection: list[str], arguments: list[str]) -> Outcome:
    """The tests on one backend, the failed ones again when they are few."""
    with tempfile.TemporaryDirectory() as cache:
        pytest = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}"]
        environment = {**os.environ, "TEST_BACKEND": backend}
        status = subprocess.run([*pytest, *selection, *arguments], env=environment, check=False).returncode
        failed = failed_tests(Path(cache))
        if status != TESTS_FAILED or not 0 < len(failed) <= FEW:
            return Outcome(status, [])
        print(f"\nonce more by themselves: {', '.join(failed)}", flush=True)
        return Outcome(subprocess.run([*pytest, *failed], env=environment, check=False).returncode, failed)


def other_folders() -> list[str]:
    """Of the tests, all but the hub's."""
    kept = (path for path in Path("tests").iterdir() if path.is_dir() or path.name.startswith("test_"))
    return sorted(str(path) for path in kept if str(path) != HUB)


def failed_tests(cache: Path) -> list[str]:
    """The tests that pytest's cache remembers as failed."""
    remembered = cache / "v/cache/lastfailed"
    return sorted(json.loads(remembered.read_text())) if remembered.exists() else []


def main(arguments: list[str]) -> int:
    """Run the passes; 0 when all that ran is green. Under CI=true all or nothing runs."""
    if "--vllm" in arguments:
        arguments.remove("--vllm")
        ran, problems = {"vLLM": run("embedded", [*VLLM, "tests"], arguments)}, []
    else:
        problems = [problem for problem in (postgres_problem(), redis_problem()) if problem]
        if problems and os.environ.get("CI") == "true":
            print("\n".join(f"under CI=true all has to run: {problem}" for problem in problems), file=sys.stderr)
            return 1
        embedded = ["tests"] if problems else [*other_folders(), *ON_SQLITE, *ON_BOTH]
        selected = [*PARALLEL, "-m", QUICK, *embedded, f"--ignore={PRODUCTION}"]
        ran = {"SQLite and the filesystem broker": run("embedded", selected, arguments)}
        if not problems:
            ignored = [f"--ignore={path}" for path in ON_SQLITE]
            selected = [*PARALLEL, "-m", f"{QUICK} and not browser", HUB, SETTINGS, PRODUCTION, *ignored]
            ran["Postgres and Redis"] = run("services", selected, arguments)
    print("\nbackends:")
    for name, outcome in ran.items():
        print(f"  {name}: {outcome}")
    for problem in problems:
        print(f"  Postgres and Redis: NOT RUN ({problem})")
    return 1 if any(outcome.status for outcome in ran.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
