"""What goes on while something fails, and what must be true once it is over: nothing lost, doubled, leased or stuck."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import boto3
import psycopg
from envhub.protocol.evals.evaluations import EvaluationView
from envhub.protocol.registry.packages import VersionState, VersionView
from envhub.protocol.runs import RunState

from tests.e2e import reversing
from tests.e2e.breakable import Breakable
from tests.e2e.production import BUCKET
from tests.e2e.stack import ROOT, wait_until
from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.fakes.s3_server import CREDENTIALS, REGION

EXAMPLES, ROLLOUTS = 80, 4
_releases = count(1)  # a version that is there already would need no build
SETTLE_S = 240.0
HELD = "SELECT count(*) FROM runs_run WHERE state NOT IN ('succeeded', 'failed', 'cancelled')"
SHARDS = "SELECT count(*) FROM evals_shard"
FREE = "SELECT min(room) FROM runs_lane WHERE queue = ANY(%s)"
ROWS = "SELECT count(*), count(DISTINCT (example, rollout)) FROM evals_rolloutindex WHERE evaluation_id = %s"
BLOBS = "SELECT sha256, size FROM storage_blob"


@dataclass
class Work:
    """An evaluation of 320 rollouts, half a minute of them; a push goes on beside it."""

    site: Breakable
    environment: str
    endpoint: PolicyEndpoint
    evaluation: EvaluationView
    package: Path

    @classmethod
    def begin(cls, site: Breakable, environment: str, folder: Path) -> Work:
        """Returns when the first rollouts are stored."""
        endpoint = reversing.slow_endpoint(0.8)
        size = {"num_examples": EXAMPLES, "rollouts_per_example": ROLLOUTS}
        evaluation = reversing.start(site, environment, site.register(endpoint), max_retries=5, **size)
        package = folder / "reverse-text"
        shutil.copytree(ROOT / "environments" / "reverse-text", package)
        project = package / "pyproject.toml"
        fresh = f'version = "1.{next(_releases)}.0"'
        project.write_text(re.sub(r'^version = ".*"$', fresh, project.read_text(), flags=re.MULTILINE))
        work = cls(site, environment, endpoint, evaluation, package)
        work.await_stored()
        return work

    def await_stored(self, more: int = 0) -> None:
        """Until more rollouts are stored than now."""
        with self.site.client() as hub:
            before = hub.evaluations.get(self.evaluation.id).summary.stored if more else 0
        reversing.await_stored(self.site, self.evaluation.id, beyond=before + more - 1 if more else 0)

    def push(self) -> VersionView:
        """The next version, whose build has not ended yet."""
        answer = self.site.cli("push", str(self.package), "--bump", "patch", "--no-wait", "--json")
        return VersionView.model_validate(answer.json["version"])

    def check(self, folder: Path, *built: VersionView) -> None:
        """All has ended, and ended right."""
        view = self.site.finished(self.evaluation.id)
        reversing.check_complete(self.site, view, folder)
        for version in built:
            ready = self.site.wait_ready(version)
            assert ready.state is VersionState.READY, (ready.failure, self.site.run_log(version.build_run_id or ""))
        log = self.site.run_log(self.evaluation.run_id or "")
        assert "already stored" in log, f"the log of the last attempt is gone: {log!r}"
        self.check_rows()
        check_blobs(self.site.storage_url, self.site.databases.primary.url)

    def check_rows(self) -> None:
        """No run is held, nothing is in hand, no slot is lost, no rollout is there twice."""
        with psycopg.connect(self.site.databases.primary.url, autocommit=True) as rows:

            def number(query: str, *values: object) -> int:
                found = rows.execute(query, values).fetchone()
                return -1 if found is None or found[0] is None else int(found[0])

            wait_until(lambda: number(HELD) == 0, SETTLE_S, lambda: f"runs are stuck:\n{self.site.log_tail()}")
            assert number(SHARDS) == 0
            wait_until(lambda: number(FREE, ["build", "eval"]) == 1, 60, lambda: "a slot is lost")
            total, distinct = rows.execute(ROWS, (self.evaluation.id,)).fetchone() or (0, 0)
            assert total == distinct == EXAMPLES * ROLLOUTS

    def attempts(self) -> int:
        """How many the evaluation's own run took."""
        with self.site.client() as hub:
            run = hub.runs.get(self.evaluation.run_id or "")
        assert run.state is RunState.SUCCEEDED
        return run.attempt


def check_blobs(storage_url: str, database_url: str) -> None:
    """Every blob that a row names is in the object storage, with its bytes."""
    keys = {
        "aws_access_key_id": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    client = boto3.session.Session().client("s3", endpoint_url=storage_url, region_name=REGION, **keys)
    with psycopg.connect(database_url) as rows:
        for sha256, size in rows.execute(BLOBS).fetchall():
            content = client.get_object(Bucket=BUCKET, Key=f"blobs/{sha256[:2]}/{sha256}")["Body"].read()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (size, sha256)
    client.close()
