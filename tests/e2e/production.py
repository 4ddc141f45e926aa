"""The production shape on this machine: Postgres, Redis, S3 over HTTP, two hub processes and two workers started apart.

Each hub process is what the hub image's CMD starts, each worker is `make worker HUB_URL=... TOKEN=...`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from infra.demo.processes import Process, Role, kill, processes_of
from tests.e2e.caches import worker_cache
from tests.e2e.endpoints import EndpointThread
from tests.e2e.services import own_services
from tests.e2e.stack import ROOT, SETTINGS, START_S, STOP_S, Stack, free_port, wait_until
from tests.fakes.round_robin import RoundRobin
from tests.fakes.s3_server import CREDENTIALS, s3_server

BUCKET = "hub-production"
DOCKERFILE = ROOT / "infra" / "docker" / "hub.Dockerfile"


def image_command(port: int) -> list[str]:
    """The hub image's CMD on another port; one process, because the stack starts several itself."""
    found = re.search(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    assert found is not None, "hub.Dockerfile has no CMD"
    program, *arguments = json.loads(found[1])
    places = {name: arguments.index(name) + 1 for name in ("--host", "--port", "--workers")}
    for name, value in (("--host", "127.0.0.1"), ("--port", str(port)), ("--workers", "1")):
        arguments[places[name]] = value
    return [sys.executable, "-m", program, *arguments]


@dataclass
class Production(Stack):
    """Stack in production's shape: `port` is the load balancer's."""

    hub_ports: tuple[int, ...] = ()
    caches: tuple[Path, ...] = ()
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of hub-0, hub-1, sweeper, worker-0, ...
    worker_hub_url: str = ""  # where workers reach the hub; empty: as everybody does
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _starts: list[tuple[list[str], dict[str, str]]] = field(default_factory=list)  # of each child

    def start(self) -> None:
        """Migrate once, as compose does; then every process, each in its own session."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.manage("migrate", "--noinput")
        for number, port in enumerate(self.hub_ports):
            self._spawn(f"hub-{number}", image_command(port), self.environment)
        self._spawn("sweeper", [sys.executable, "manage.py", "sweep"], self.environment)
        for number, cache in enumerate(self.caches):
            token = self.manage("create_worker_token", f"worker-{number}")
            command = ["make", "-s", "worker", f"HUB_URL={self.worker_hub_url or self.url}", f"TOKEN={token}"]
            self._spawn(f"worker-{number}", command, self._worker_environment(number, cache))
        wait_until(self._is_ready, START_S, lambda: f"the hubs did not start:\n{self.log_tail()}")
        self.token = self.token or self.make_token(self.user, "read,write,inference")

    def stop(self) -> list[str]:
        """Stop everything. Gives the command lines of what outlived its SIGTERM; they are killed."""
        for process in self.living():
            if not process.is_a(Role.RUNNER):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
        with suppress(AssertionError):
            wait_until(lambda: not self.living(), STOP_S, lambda: "something is still there")
        left = self.living()
        kill(process.pid for process in left)
        for child in self.children:
            child.wait()
        return [" ".join(process.command) for process in left]

    def living(self) -> list[Process]:
        """All its processes."""
        return [process for process in processes_of(self.data) if process.command]

    def _worker_environment(self, number: int, cache: Path) -> Mapping[str, str]:
        """A worker's host knows its token and address, no database, no storage key. HUB_DATA only marks the process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HUB_", "WORKER_", "TEST_"))}
        own = {"WORKER_DATA": str(cache), "WORKER_NAME": f"worker-{number}", "HUB_DATA": str(self.data)}
        worker = {name: value for name, value in {**SETTINGS, **self.settings}.items() if name.startswith("WORKER_")}
        return {**kept, **worker, **own, "PYTHONUNBUFFERED": "1"}

    def revive(self) -> None:
        """Start again what was killed a moment ago, as compose and systemd do."""
        wait_until(self._has_lost_one, STOP_S, lambda: "nothing has ended")
        for number, (command, environment) in enumerate(self._starts):
            if self.children[number].poll() is not None:
                self.children[number] = self._start_process(command, environment)

    def _has_lost_one(self) -> bool:
        return any(child.poll() is not None for child in self.children)

    def _spawn(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        self._starts.append((command, {**environment, **self.variables.get(name, {})}))
        self.children.append(self._start_process(*self._starts[-1]))

    def _start_process(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        guarded = ["setpriv", "--pdeathsig", "TERM", *command]
        with self.log.open("ab") as log:
            return subprocess.Popen(guarded, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)

    def _is_ready(self) -> bool:
        assert all(child.poll() is None for child in self.children), self.log_tail()
        try:
            addresses = [f"http://127.0.0.1:{port}/readyz" for port in self.hub_ports]
            return all(httpx.get(address, timeout=5).status_code == 200 for address in addresses)
        except httpx.HTTPError:
            return False


@contextmanager
def running_production(data: Path) -> Iterator[Production]:
    """Two hubs, two workers, a sweeper; nothing of it is left afterwards."""
    with ExitStack() as stack:
        services = stack.enter_context(own_services("hub_production"))
        storage = stack.enter_context(s3_server(BUCKET))
        caches = (stack.enter_context(worker_cache()), stack.enter_context(worker_cache()))
        hub_ports = (free_port(), free_port())
        proxy = stack.enter_context(RoundRobin(hub_ports, free_port()))
        settings = {"HUB_STORAGE": "s3", "HUB_S3_BUCKET": BUCKET, "HUB_S3_ENDPOINT_URL": storage, **CREDENTIALS}
        own = {"HUB_SECRET_KEY": "production-test-" * 4, "HUB_DATABASE_POOL": "4"}
        endpoints = EndpointThread()
        running = Production(data, proxy.port, {**services, **settings, **own}, endpoints)
        running.hub_ports, running.caches = hub_ports, caches
        try:
            running.start()
            yield running
        finally:
            left = running.stop()
            endpoints.close()
        assert not left, f"processes outlived their hub: {left}"
