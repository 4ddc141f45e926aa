"""Postgres, Redis, an S3 server, two hub processes behind nginx as it is shipped, a sweeper, two idle workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.demo.processes import Role
from tests.bench.load.cpu import used_by
from tests.e2e.caches import worker_cache
from tests.e2e.endpoints import EndpointThread
from tests.e2e.production import BUCKET, Production
from tests.e2e.stack import ROOT, free_port
from tests.fakes.nginx import nginx
from tests.fakes.postgres_server import PostgresServer, server_folder
from tests.fakes.redis_server import RedisServer
from tests.fakes.s3_server import CREDENTIALS, s3_server

USER = "load"
SEED = """
import os, sys
from envhub.protocol.visibility import Visibility
from hub.evals.models import Evaluation
from hub.registry.models import Environment
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted
from tests.factories.registry import push_version
user = make_user("load")
made = [create_hosted(user, num_examples=-1, rollouts_per_example=8).pk for _ in range({evaluations})]
for number in range(2, 21):
    push_version(user, version=f"0.{{number}}.0", requires=[])
Environment.objects.update(visibility=Visibility.PUBLIC.value)
Evaluation.objects.update(visibility=Visibility.PUBLIC.value)
print(*made)
"""


@dataclass(frozen=True)
class Site:
    """Running. `static`: what lies there nginx serves at `static_url`."""

    hub: Production
    postgres: PostgresServer
    storage_url: str
    static: Path
    static_url: str

    @property
    def url(self) -> str:
        """Of the hub behind nginx."""
        return self.hub.url

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU until now, by part."""
        return {"hub": used_by(self.hub.pids(Role.WEB)), "Postgres": used_by([self.postgres.pid])}

    def seed(self, evaluations: int) -> list[str]:
        """A public environment of 20 versions by the user `load`, and so many queued evaluations of it."""
        command = [sys.executable, "manage.py", "shell", "-c", SEED.format(evaluations=evaluations)]
        done = subprocess.run(command, cwd=ROOT, env=self.hub.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-evaluations:]


@contextmanager
def load_site(folder: Path) -> Iterator[Site]:
    """Inside, it runs; builds stay queued, and evaluations wait for simulated workers."""
    with ExitStack() as stack:
        postgres = PostgresServer(stack.enter_context(server_folder()))
        postgres.create()
        stack.callback(postgres.stop)
        redis = stack.enter_context(RedisServer(folder / "redis"))
        storage = stack.enter_context(s3_server(BUCKET))
        caches = (stack.enter_context(worker_cache()), stack.enter_context(worker_cache()))
        hubs, port, static_port = (free_port(), free_port()), free_port(), free_port()
        static = stack.enter_context(nginx(folder / "nginx", hubs, port, static_port))
        settings = {
            **CREDENTIALS,
            "HUB_DATABASE_URL": postgres.url,
            "HUB_DATABASE_POOL": "10",
            "HUB_BROKER_URL": redis.url,
            "HUB_STORAGE": "s3",
            "HUB_S3_BUCKET": BUCKET,
            "HUB_S3_ENDPOINT_URL": storage,
            "HUB_SECRET_KEY": "load-" * 12,
            "HUB_LEASE_SECONDS": "30",
            "HUB_WORKER_BEAT_SECONDS": "2",
            "WORKER_SLOTS": json.dumps({"train": 1}),
        }
        endpoints = EndpointThread()
        hub = Production(folder / "hub", port, settings, endpoints, hub_ports=hubs, caches=caches)
        try:
            hub.start()
            yield Site(hub, postgres, storage, static, f"http://127.0.0.1:{static_port}")
        finally:
            hub.stop()
            endpoints.close()
